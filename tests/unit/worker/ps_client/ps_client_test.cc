// Values that take several calls to a server, in simulated time: the calls of each server are held
// until the test answers them.

#include "worker/ps_client/ps_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr uint32_t kServers = 2;
constexpr uint32_t kSlicesOfServer = 5;

// Holds what was asked of one server. Lives on the test's thread.
class HeldChannel final : public Channel {
 public:
  std::unique_ptr<Call> Start(absl::string_view, Message request, absl::Duration,
                              Reply done) override {
    open.push_back({std::move(request), std::move(done)});
    most = std::max(most, open.size());
    return nullptr;
  }

  struct Held {
    Message request;
    Reply done;
  };
  std::deque<Held> open;
  size_t most = 0;  // at one time
};

class HeldTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string&,
                                                 std::vector<Service>) override {
    return absl::UnimplementedError("nobody listens here");
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane) override {
    std::shared_ptr<HeldChannel>& channel = channels[address];
    if (channel == nullptr) channel = std::make_shared<HeldChannel>();
    return channel;
  }
  std::map<std::string, std::shared_ptr<HeldChannel>> channels;
};

std::string AddressOf(uint32_t ps) { return absl::StrCat("ps:", ps); }

class PsClientTest : public testing::Test {
 protected:
  PsClientTest() {
    google::protobuf::RepeatedPtrField<proto::Peer> peers;
    for (uint32_t ps = 0; ps < kServers; ++ps) {
      proto::Peer& peer = *peers.Add();
      peer.mutable_task()->set_role("ps");
      peer.mutable_task()->set_index(static_cast<int32_t>(ps));
      peer.set_address(AddressOf(ps));
    }
    client_->SetPeers(peers, absl::Seconds(5));
    // A row for each slice, to the servers in turn; a call has room for one.
    proto::VariableLayout layout;
    layout.set_name("v");
    layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
    layout.add_dims(kServers * kSlicesOfServer);
    for (uint32_t i = 0; i < kServers * kSlicesOfServer; ++i) {
      proto::SliceHome& slice = *layout.add_slices();
      slice.set_slice_id(i);
      slice.set_row_begin(i);
      slice.set_row_count(1);
      slice.set_ps(i % kServers);
    }
    plan_ = std::make_shared<const TransferPlan>(*MakeTransferPlan({&layout}, {}, sizeof(float)));
  }

  HeldChannel& server(uint32_t ps) { return *transport_.channels.at(AddressOf(ps)); }

  // What the server answers to its oldest call: that its value is the slice's id.
  void AnswerPull(uint32_t ps) {
    HeldChannel::Held held = std::move(server(ps).open.front());
    server(ps).open.pop_front();
    proto::PullRequest request;
    ASSERT_TRUE(request.ParseFromString(held.request.header));
    ASSERT_EQ(request.slice_ids_size(), 1);
    pulled_.insert(request.slice_ids(0));
    Tensor value(DType::kFloat32, Shape{1});
    value.mutable_data<float>()[0] = static_cast<float>(request.slice_ids(0));
    Envelope<proto::PullResponse> answer;
    answer.header.add_versions(request.slice_ids(0));
    *answer.header.add_tensors() = MetaOf(value);
    answer.payload.push_back(SliceOf(value));
    held.done(Pack(std::move(answer)));
    sim_.RunFor(absl::Milliseconds(1));
  }
  void Fail(uint32_t ps) {
    HeldChannel::Held held = std::move(server(ps).open.front());
    server(ps).open.pop_front();
    held.done(MakeError(absl::StatusCode::kFailedPrecondition, "old", proto::STALE));
    sim_.RunFor(absl::Milliseconds(1));
  }

  SimWorld sim_{1};
  MemoryFileSystem files_;
  HeldTransport transport_;
  const std::shared_ptr<PsClient> client_ =
      std::make_shared<PsClient>(World{sim_, sim_, files_, transport_}, RetryPolicy(), nullptr);
  std::shared_ptr<const TransferPlan> plan_;
  std::set<uint32_t> pulled_;
};

TEST_F(PsClientTest, FewCallsToAServerAreUnderWayAtOnce) {
  std::optional<absl::StatusOr<Pulled>> end;
  client_->Pull(plan_, nullptr, {}, [&](auto pulled) { end = std::move(pulled); });
  sim_.RunFor(absl::Milliseconds(1));
  // One server is slow: the other one's calls do not wait for it.
  while (!server(1).open.empty()) AnswerPull(1);
  EXPECT_FALSE(end.has_value());
  while (!server(0).open.empty()) AnswerPull(0);
  ASSERT_TRUE(end.has_value());
  ASSERT_TRUE(end->ok()) << end->status();
  EXPECT_EQ(server(0).most, kCallsAtOnceMax);
  EXPECT_EQ(server(1).most, kCallsAtOnceMax);
  EXPECT_EQ(pulled_.size(), kServers * kSlicesOfServer);
  const Tensor& value = (*end)->values[0];
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    EXPECT_EQ(value.data<float>()[i], static_cast<float>(i));
  }
}

TEST_F(PsClientTest, AfterAnErrorAServerIsAskedForNoMore) {
  std::optional<absl::StatusOr<Pulled>> end;
  client_->Pull(plan_, nullptr, {}, [&](auto pulled) { end = std::move(pulled); });
  sim_.RunFor(absl::Milliseconds(1));
  Fail(0);
  EXPECT_EQ(server(0).open.size(), kCallsAtOnceMax - 1);
  while (!server(0).open.empty()) AnswerPull(0);
  while (!server(1).open.empty()) AnswerPull(1);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(ClassOf(end->status()), proto::STALE);
  EXPECT_EQ(pulled_.size(), kCallsAtOnceMax - 1 + kSlicesOfServer);
}

TEST_F(PsClientTest, GradientsAreLetGoWithTheLastAnswer) {
  Tensor gradient(DType::kFloat32, Shape{kServers * kSlicesOfServer});
  const std::weak_ptr<Buffer> memory = gradient.buffer();
  PsClient::Gradients gradients;
  gradients.values.push_back(std::move(gradient));
  gradients.versions.assign(plan_->num_slices, 0);
  bool gone = false;
  client_->Push(plan_, std::move(gradients), {}, {}, [&](const auto&) { gone = memory.expired(); });
  sim_.RunFor(absl::Milliseconds(1));
  for (const uint32_t ps : {0u, 1u}) {
    while (!server(ps).open.empty()) {
      HeldChannel::Held held = std::move(server(ps).open.front());
      server(ps).open.pop_front();
      held.request = {};
      EXPECT_FALSE(memory.expired());
      held.done(Pack(Envelope<proto::PushResponse>()));
      sim_.RunFor(absl::Milliseconds(1));
    }
  }
  EXPECT_TRUE(gone);
  EXPECT_EQ(server(0).most, kCallsAtOnceMax);
}

}  // namespace
}  // namespace cohort
