// Rows that a coordinator reads itself, more of them than one call moves. Expectations: the rows of
// the whole, and the bytes of every answer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/homes/ps_control.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {
namespace {

// Sees the answers that come through a channel.
class WatchedChannel final : public Channel {
 public:
  WatchedChannel(std::shared_ptr<Channel> channel, std::vector<size_t>& answers)
      : channel_(std::move(channel)), answers_(answers) {}
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    const bool pull = method == "/cohort.proto.PsService/Pull";
    return channel_->Start(method, std::move(request), timeout,
                           [&answers = answers_, pull,
                            done = std::move(done)](absl::StatusOr<Message> answer) mutable {
                             if (pull && answer.ok()) {
                               answers.push_back(PayloadBytes(answer->payload));
                             }
                             done(std::move(answer));
                           });
  }

 private:
  const std::shared_ptr<Channel> channel_;
  std::vector<size_t>& answers_;
};

class WatchedTransport final : public Transport {
 public:
  explicit WatchedTransport(Transport& transport) : transport_(transport) {}
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    return transport_.Listen(address, std::move(services));
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override {
    return std::make_shared<WatchedChannel>(transport_.Connect(address, lane), answers);
  }

  std::vector<size_t> answers;  // to pulls, in bytes

 private:
  Transport& transport_;
};

constexpr int64_t kRows = 100, kWidth = 3;

proto::VariableLayout HalfOnEach() {
  proto::VariableLayout variable;
  variable.set_name("v");
  variable.set_dtype(static_cast<int32_t>(DType::kFloat32));
  variable.add_dims(kRows);
  variable.add_dims(kWidth);
  variable.mutable_rule()->set_op("sgd");
  variable.mutable_initializer()->set_op("random_normal");
  variable.mutable_initializer()->set_b(1);
  for (uint32_t ps : {0, 1}) {
    proto::SliceHome& slice = *variable.add_slices();
    slice.set_slice_id(ps + 1);
    slice.set_ps(ps);
    slice.set_row_begin(ps * kRows / 2);
    slice.set_row_count(kRows / 2);
  }
  return variable;
}

TEST(RowRead, NoAnswerIsLongerThanACallMayMove) {
  SimCluster tasks(5, /*ps=*/2, /*workers=*/1);
  const World there = tasks.WorldOf("chief:0");
  WatchedTransport transport(there.transport);
  const World world{there.clock, there.executor, there.files, transport};
  Cluster::Options options;
  options.spec = tasks.tasks().spec();
  options.self.incarnation = 77;
  options.on_worker_ready = [](int, const TaskLink&) {};
  options.on_worker_lost = [](int, const absl::Status&) {};
  options.on_ps_lost = [](const absl::Status&) {};
  const auto cluster = Cluster::Create(world, std::move(options));
  bool ready = false;
  cluster->Claim(0, [](const absl::StatusOr<uint64_t>&) {});
  ASSERT_TRUE(tasks.sim().RunUntil([&] { return cluster->epoch() > 0; }, absl::Seconds(10)));
  cluster->WhenReady(1, [&](const absl::Status&) { ready = true; });
  ASSERT_TRUE(tasks.sim().RunUntil([&] { return ready; }, absl::Seconds(10)));

  const proto::VariableLayout variable = HalfOnEach();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 500; ++i) ids.push_back(i * i * 7 % kRows);

  constexpr size_t kRowBytes = kWidth * sizeof(float);
  for (const size_t call_bytes_max : {size_t{1}, kRowBytes, 7 * kRowBytes + 1, size_t{1} << 20}) {
    PsControl::Options control;
    control.call_bytes_max = call_bytes_max;
    PsControl ps(world, cluster, ShardTransfer::Create(world, {}, cluster), tasks.waiter(),
                 control);
    ASSERT_TRUE(ps.CreateVariables({variable}).ok());
    const Tensor whole = *ps.Read(variable);
    transport.answers.clear();
    const absl::StatusOr<Tensor> rows = ps.ReadRows(variable, ids);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(std::memcmp(rows->raw() + i * kRowBytes,
                            whole.raw() + static_cast<size_t>(ids[i]) * kRowBytes, kRowBytes),
                0)
          << i;
    }
    for (const size_t bytes : transport.answers) {
      EXPECT_LE(bytes, std::max(call_bytes_max, kRowBytes));
    }
    EXPECT_FALSE(transport.answers.empty());
  }
  cluster->Stop();
}

}  // namespace
}  // namespace cohort
