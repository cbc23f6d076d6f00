// What the local transport adds to the conformance suite: its blocks, and peers that are not ours.

#include "tests/support/network/local_transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/frames/shared_block.h"
#include "proto/local.pb.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

class LocalTransportTest : public testing::Test {
 protected:
  LocalTransportTest() {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Pull"] = [this](Message request, Reply reply) {
      ++handled_;
      reply(std::move(request));
    };
    service.handlers["Push"] = [this](Message, Reply reply) { reply(Message{"", {large_}}); };
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

  const ByteSlice large_ = Bytes(size_t{64} << 20, 2);
  std::atomic<int> handled_{0};
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

// The first frame of a call whose payload comes in parts, with its first part.
proto::LocalFrame FirstPart(size_t whole_bytes, size_t part_bytes) {
  proto::LocalFrame frame;
  frame.mutable_call()->set_id(1);
  frame.mutable_call()->set_method(kPull);
  frame.set_whole_bytes(whole_bytes);
  frame.set_payload(std::string(part_bytes, 'a'));
  return frame;
}

proto::LocalFrame NextPart(size_t bytes) {
  proto::LocalFrame frame;
  frame.set_payload(std::string(bytes, 'b'));
  return frame;
}

TEST_F(LocalTransportTest, PartsThatAreNotOfOnePayloadEndTheConnection) {
  EXPECT_TRUE(EndsAfter(Framed(NextPart(10)))) << "of no message";
  EXPECT_TRUE(EndsAfter(Framed(FirstPart(20, 21)))) << "longer than its payload";
  EXPECT_TRUE(EndsAfter(Framed(FirstPart(20, 15)) + Framed(NextPart(6))));
  EXPECT_TRUE(EndsAfter(Framed(FirstPart(20, 15)) + Framed(FirstPart(20, 15))));
  EXPECT_TRUE(EndsAfter(Framed(FirstPart(kMessageBytesMax + 1, 15))));
  proto::LocalFrame no_message = NextPart(10);
  no_message.set_whole_bytes(10);
  EXPECT_TRUE(EndsAfter(Framed(no_message)));
  proto::LocalFrame too_much_behind = FirstPart(0, 0);
  too_much_behind.set_following(kMessageBytesMax + 1);
  EXPECT_TRUE(EndsAfter(Framed(too_much_behind)));
  proto::LocalFrame part_behind_that_is_too_long;
  part_behind_that_is_too_long.set_following(6);
  EXPECT_TRUE(EndsAfter(Framed(FirstPart(20, 15)) + Framed(part_behind_that_is_too_long)));
  proto::LocalFrame two_payloads = FirstPart(0, 10);
  two_payloads.set_following(10);
  EXPECT_TRUE(EndsAfter(Framed(two_payloads)));
  EXPECT_EQ(handled_, 0);
  EXPECT_TRUE(Answers());
}

TEST_F(LocalTransportTest, AMessageWhosePartsStopComingIsAsIfNeverSent) {
  const std::vector<std::string> frames = {Framed(FirstPart(50, 20)), Framed(NextPart(20)),
                                           Framed(NextPart(10))};
  for (size_t sent = 1; sent <= frames.size(); ++sent) {
    absl::StatusOr<UniqueFd> socket = ConnectLocal(server_->address());
    ASSERT_TRUE(socket.ok());
    for (size_t i = 0; i < sent; ++i) ASSERT_TRUE(SendSome(*socket, frames[i], -1).ok());
    if (sent < frames.size()) *socket = UniqueFd();
    EXPECT_TRUE(Answers());
    // The other client's call came through the same loop after the parts.
    EXPECT_EQ(handled_, static_cast<int>(sent) + (sent == frames.size() ? 1 : 0));
  }
}

TEST_F(LocalTransportTest, SmallCallsOvertakeTheLargeOnesParts) {
  const auto channel = transport_.Connect(server_->address(), Lane::kData);
  Outcome first;  // after it each end knows that the other takes blocks
  channel->Start(kPull, Message{"", {Bytes(10, 1)}}, kLong, first.Completion());
  ASSERT_TRUE(first.WaitFor(kLong));
  Outcome large, small;
  bool large_was_done = true;
  // Nobody says that its answer is large, so it comes on the connection of small calls.
  channel->Start(kPush, Message{}, kLong, large.Completion());
  channel->Start(kPull, Message{"", {Bytes(100, 3)}}, kLong,
                 [&, done = small.Completion()](absl::StatusOr<Message> answer) mutable {
                   large_was_done = large.done();
                   done(std::move(answer));
                 });
  ASSERT_TRUE(small.WaitFor(kLong));
  ASSERT_TRUE(large.WaitFor(kLong));
  EXPECT_FALSE(large_was_done);
  const auto answer = large.Take();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Flatten(answer->payload) == Flatten({large_}));
}

TEST(LocalTransport, ABlockThatNobodyAskedForEndsTheConnection) {
  LocalTransport transport({kMessageBytesMax, false});
  const auto server = transport.Listen("cohort-test:0", {});
  ASSERT_TRUE(server.ok());
  absl::StatusOr<UniqueFd> socket = ConnectLocal((*server)->address());
  ASSERT_TRUE(socket.ok());
  const auto block = MakeSharedBlock(4096);
  ASSERT_TRUE(block.ok());
  proto::LocalFrame frame = FirstPart(0, 0);
  frame.set_block(1);
  frame.set_block_bytes(10);
  frame.set_new_block(true);
  const std::string body = frame.SerializeAsString();
  ASSERT_TRUE(SendSome(*socket, std::string{static_cast<char>(body.size()), 0, 0, 0} + body,
                       block->fd.get())
                  .ok());
  std::vector<char> buffer(1000);
  std::vector<UniqueFd> passed;
  absl::StatusOr<size_t> count = size_t{0};
  while (count.ok() && *count == 0) count = ReceiveSome(*socket, absl::MakeSpan(buffer), passed);
  EXPECT_FALSE(count.ok());
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

// Otherwise each connection of a server would keep the memory of its largest payload.
TEST(LocalTransportMemory, IsSharedByTheConnectionsOfAProcess) {
  constexpr size_t kLarge = size_t{8} << 20;
  std::vector<const std::byte*> places;
  Service service;
  service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "cohort.proto.PsService");
  service.handlers["Push"] = [&places](Message request, Reply reply) {
    places.push_back(request.payload.at(0).data);
    request = Message();
    reply(Message{});
  };
  LocalTransport transport(LocalTransport::Options{kMessageBytesMax, /*blocks=*/false});
  const auto server = transport.Listen("cohort-test:0", {service});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::shared_ptr<Channel>> channels;
  for (int i = 0; i < 3; ++i) {
    channels.push_back(transport.Connect((*server)->address(), Lane::kData));
    Outcome outcome;
    channels.back()->Start(kPush, Message{"", {Bytes(kLarge, 1)}}, kLong, outcome.Completion());
    ASSERT_TRUE(outcome.WaitFor(kLong));
    ASSERT_TRUE(outcome.Take().ok());
  }
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[1], places[0]);
  EXPECT_EQ(places[2], places[0]);
}

// A process of its own, with so many files left when the call starts.
TEST(LocalTransportShortage, ACallWithoutFilesLeftEndsWithItsCause) {
#ifdef COHORT_SANITIZED
  GTEST_SKIP() << "needs a build without sanitizers: they find out through pipes what may be read";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto call = [](int left) {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Push"] = [](Message, Reply reply) { reply(Message{}); };
    LocalTransport transport;
    const auto server = transport.Listen("cohort-short:0", {service});
    const auto channel = transport.Connect((*server)->address(), Lane::kControl);
    std::vector<UniqueFd> all;
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (all.empty() || all.back().ok()) all.emplace_back(open("/dev/null", O_RDONLY));
    all.resize(all.size() - static_cast<size_t>(left) - 1);
    Outcome outcome;
    channel->Start(kPush, Message{}, absl::Seconds(1), outcome.Completion());
    if (!outcome.WaitFor(kLong)) _exit(9);
    std::fprintf(stderr, "%s\n", outcome.Take().status().ToString().c_str());
    _exit(0);
  };
  EXPECT_EXIT(call(0), testing::ExitedWithCode(0), "UNAVAILABLE.*Too many open files");
  // The calling end has one, and the serving end none.
  EXPECT_EXIT(call(1), testing::ExitedWithCode(0), "DEADLINE_EXCEEDED");
  EXPECT_EXIT(call(2), testing::ExitedWithCode(0), "OK");
}

}  // namespace
}  // namespace cohort
