// What the local transport adds to the conformance suite: its blocks, and peers that are not ours.

#include "common/wire/local_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/block_pool.h"
#include "common/wire/local_socket.h"
#include "proto/local.pb.h"
#include "tests/unit/wire/transport_test_world.h"

namespace cohort {
namespace {

class LocalTransportTest : public testing::Test {
 protected:
  LocalTransportTest() {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Pull"] = Echo;
    auto server = transport_.Listen("cohort-test:0", {service});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  bool Answers() {
    Outcome outcome;
    const auto channel = transport_.Connect(server_->address(), Lane::kData);
    channel->Start(kPull, Message{"", {Bytes(100000, 1)}}, kLong, outcome.Completion());
    return outcome.WaitFor(kLong) && outcome.Take().ok();
  }

  // True when the server ends the connection of a peer that sends these bytes.
  bool EndsAfter(const std::string& bytes) {
    absl::StatusOr<UniqueFd> socket = ConnectLocal(server_->address());
    EXPECT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(SendSome(*socket, bytes, -1).ok());
    std::vector<char> buffer(1000);
    std::vector<UniqueFd> passed;
    while (true) {
      const auto count = ReceiveSome(*socket, absl::MakeSpan(buffer), passed);
      if (!count.ok()) return true;
      if (*count > 0) return false;
    }
  }

  static std::string Framed(const proto::LocalFrame& frame) {
    const std::string body = frame.SerializeAsString();
    return std::string{static_cast<char>(body.size()), 0, 0, 0} + body;
  }

  LocalTransport transport_;
  std::unique_ptr<Server> server_;
};

TEST_F(LocalTransportTest, APeerThatSendsNoFrameIsCutOffAlone) {
  EXPECT_TRUE(EndsAfter(std::string(100, '\xff')));
  proto::LocalFrame unknown_block;
  unknown_block.mutable_call()->set_id(1);
  unknown_block.set_block(7);
  EXPECT_TRUE(EndsAfter(Framed(unknown_block)));
  proto::LocalFrame block_without_descriptor = unknown_block;
  block_without_descriptor.set_new_block(true);
  EXPECT_TRUE(EndsAfter(Framed(block_without_descriptor)));
  proto::LocalFrame returned_what_was_not_lent;
  returned_what_was_not_lent.add_released(3);
  EXPECT_TRUE(EndsAfter(Framed(returned_what_was_not_lent)));
  EXPECT_TRUE(Answers());
}

// Replay one with --gtest_filter and the seed of the failure's trace.
TEST_F(LocalTransportTest, RandomBytesNeverHurtTheServer) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::string bytes(1 + Mix64(seed) % 64, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(Mix64(seed * 1000 + i));
    bytes[1] = bytes.size() > 1 ? 0 : bytes[1];
    const auto socket = ConnectLocal(server_->address());
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(SendSome(*socket, bytes, -1).ok());
  }
  EXPECT_TRUE(Answers());
}

TEST_F(LocalTransportTest, ADescriptorThatIsNoSealedMemoryEndsTheConnection) {
  absl::StatusOr<UniqueFd> socket = ConnectLocal(server_->address());
  ASSERT_TRUE(socket.ok());
  proto::LocalFrame frame;
  frame.mutable_call()->set_id(1);
  frame.set_block(1);
  frame.set_block_bytes(10);
  frame.set_new_block(true);
  ASSERT_TRUE(SendSome(*socket, Framed(frame), socket->get()).ok());
  std::vector<char> buffer(1000);
  std::vector<UniqueFd> passed;
  absl::StatusOr<size_t> count = size_t{0};
  while (count.ok() && *count == 0) count = ReceiveSome(*socket, absl::MakeSpan(buffer), passed);
  EXPECT_FALSE(count.ok());
  EXPECT_TRUE(Answers());
}

TEST(BlockPool, ABlockIsUsedAgainOnceItWasGivenBack) {
  BlockPool pool;
  const auto first = pool.Take(100000);
  ASSERT_TRUE(first.ok());
  EXPECT_GE(first->fd, 0);
  std::memset(first->data, 7, 100000);
  const auto second = pool.Take(100000);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->id, first->id);
  EXPECT_TRUE(pool.GiveBack(first->id));
  EXPECT_FALSE(pool.GiveBack(first->id)) << "it is lent no more";
  EXPECT_FALSE(pool.GiveBack(99));
  const auto third = pool.Take(90000);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->id, first->id);
  EXPECT_EQ(third->fd, -1) << "the other end has its descriptor";
}

TEST(BlockPool, FreeMemoryIsBounded) {
  BlockPool pool;
  std::vector<uint64_t> ids;
  for (int i = 0; i < 6; ++i) {
    const auto lent = pool.Take(size_t{64} << 20);
    ASSERT_TRUE(lent.ok()) << lent.status();
    ids.push_back(lent->id);
  }
  for (const uint64_t id : ids) EXPECT_TRUE(pool.GiveBack(id));
  EXPECT_EQ(pool.TakeDropped(), (std::vector<uint64_t>{ids[0], ids[1]})) << "256 MiB stay";
  EXPECT_TRUE(pool.TakeDropped().empty());
}

}  // namespace
}  // namespace cohort
