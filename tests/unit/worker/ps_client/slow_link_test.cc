// Large messages between a worker and a parameter server over a link that is slow, falls silent or
// trickles, in simulated time.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "common/wire/error_detail.h"
#include "common/wire/moved_bytes.h"
#include "proto/ps.pb.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"
#include "worker/ps_client/ps_call.h"

namespace cohort {
namespace {

constexpr char kPull[] = "/cohort.proto.PsService/Pull";
constexpr char kPush[] = "/cohort.proto.PsService/Push";
constexpr size_t kMiB = size_t{1} << 20;
constexpr absl::Duration kWindow = absl::Seconds(5);

class SlowLinkTest : public testing::Test {
 protected:
  // What one call came to.
  struct End {
    absl::Duration at = absl::InfiniteDuration();  // since the test's start
    absl::Status status;
    size_t bytes = 0;  // of the answer
  };

  // Lets a server answer over a link of this rate.
  void Connect(double bytes_per_second) {
    network = std::make_unique<SimNetwork>(sim);
    network->SetRate(bytes_per_second);
    transport = network->TransportOf("worker:0");
    there = network->TransportOf("ps:3");
    Service service;
    service.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
    service.handlers["Pull"] = [this](Message, Reply reply) {
      ++handled;
      reply(Message{"", {Zeros(answer_bytes)}});
    };
    service.handlers["Push"] = [this](Message request, Reply reply) {
      ++handled;
      EXPECT_EQ(PayloadBytes(request.payload), pushed_bytes);
      reply(Message{});
    };
    service.receive_budget = std::make_shared<ByteBudget>(size_t{1} << 30);
    server = *there->Listen("host:1", {std::move(service)});
    PsRoute route;
    route.task.set_role("ps");
    route.task.set_index(3);
    route.address = "host:1";
    route.channel = transport->Connect(route.address, Lane::kData);
    route.window = kWindow;
    link = std::make_shared<PsLink>(std::move(route), nullptr);
  }
  void TearDown() override { sim.RunFor(absl::Minutes(10)); }

  static ByteSlice Zeros(size_t bytes) {
    auto owner = std::make_shared<const std::string>(bytes, '\0');
    const auto* const data = reinterpret_cast<const std::byte*>(owner->data());
    return {std::move(owner), data, bytes};
  }

  std::shared_ptr<End> Start(const char* method, Message request, PsCaller caller = {}) {
    auto end = std::make_shared<End>();
    StartPsCall({sim, sim, files, *transport}, RetryPolicy(), link, method, std::move(request),
                std::move(caller), [this, end](const absl::StatusOr<Message>& answer) {
                  *end = {sim.Now() - begin, answer.status(),
                          answer.ok() ? PayloadBytes(answer->payload) : 0};
                });
    return end;
  }
  std::shared_ptr<End> Pull(size_t bytes, PsCaller caller = {}) {
    answer_bytes = bytes;
    return Start(kPull, Message{"", {}, bytes}, std::move(caller));
  }
  std::shared_ptr<End> Push(size_t bytes) {
    pushed_bytes = bytes;
    return Start(kPush, Message{"", {Zeros(bytes)}});
  }

  SimWorld sim{1};
  const absl::Time begin = sim.Now();
  MemoryFileSystem files;
  std::unique_ptr<SimNetwork> network;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Transport> there;
  std::unique_ptr<Server> server;
  std::shared_ptr<PsLink> link;
  size_t answer_bytes = 0;
  size_t pushed_bytes = 0;
  int handled = 0;
};

// Longer than an attempt may be silent (10 s), and than all of them together (30 s).
TEST_F(SlowLinkTest, APullTakesAsLongAsItsAnswerNeeds) {
  Connect(100e3);
  const auto pull = Pull(4 * kMiB);
  sim.RunFor(absl::Minutes(2));
  ASSERT_TRUE(pull->status.ok()) << pull->status;
  EXPECT_EQ(pull->bytes, 4 * kMiB);
  EXPECT_GT(pull->at, absl::Seconds(41));
  EXPECT_LT(pull->at, absl::Seconds(44));
  EXPECT_EQ(handled, 1) << "no attempt was made again";
}

TEST_F(SlowLinkTest, APushTakesAsLongAsItsRequestNeeds) {
  Connect(100e3);
  const auto push = Push(4 * kMiB);
  sim.RunFor(absl::Minutes(2));
  ASSERT_TRUE(push->status.ok()) << push->status;
  EXPECT_GT(push->at, absl::Seconds(41));
  EXPECT_EQ(handled, 1) << "no attempt was made again";
}

TEST_F(SlowLinkTest, PullsAndPushesAtOnceTakeAsLongAsTheyNeed) {
  Connect(100e3);
  const auto pull = Pull(4 * kMiB);
  const auto push = Push(3 * kMiB);
  sim.RunFor(absl::Minutes(2));
  EXPECT_TRUE(pull->status.ok() && pull->bytes == 4 * kMiB) << pull->status;
  EXPECT_TRUE(push->status.ok() && push->at < absl::Minutes(1)) << push->status;
  EXPECT_EQ(handled, 2);
}

// The bounds are those of a small call: an attempt of 10 s, and one more within the window.
TEST_F(SlowLinkTest, ASilentLinkIsFoundHoweverMuchIsExpected) {
  Connect(100e3);
  network->Cut("worker:0", "ps:3");
  for (const bool pulls : {true, false}) {
    const absl::Duration start = sim.Now() - begin;
    const auto call = pulls ? Pull(256 * kMiB) : Push(4 * kMiB);
    sim.RunFor(absl::Seconds(31));
    EXPECT_EQ(ClassOf(call->status), proto::PS_LOST) << call->status;
    EXPECT_LE(call->at - start, absl::Seconds(21));
    link->Reroute(link->route());  // the incident ends
  }
}

TEST_F(SlowLinkTest, ALinkThatFallsSilentIsFoundAfterItsLastBytes) {
  for (const bool pulls : {true, false}) {
    Connect(100e3);
    const absl::Duration start = sim.Now() - begin;
    const auto call = pulls ? Pull(4 * kMiB) : Push(4 * kMiB);
    sim.RunFor(absl::Seconds(25));
    EXPECT_EQ(call->at, absl::InfiniteDuration()) << call->status;
    network->Cut("worker:0", "ps:3");
    sim.RunFor(absl::Seconds(40));
    EXPECT_EQ(ClassOf(call->status), proto::PS_LOST) << call->status;
    EXPECT_LE(call->at - start, absl::Seconds(25 + 21));
    server.reset();
  }
}

// Time in which bytes moved uses up no patience: the attempt that follows has all of it.
TEST_F(SlowLinkTest, ALinkThatFallsSilentAndHealsLosesNoCall) {
  Connect(100e3);
  const auto pull = Pull(4 * kMiB);
  sim.RunFor(absl::Seconds(36));
  // Long enough to lose a part of the answer, and over before the next attempt is made.
  network->Cut("worker:0", "ps:3");
  sim.RunFor(absl::Milliseconds(700));
  network->HealAll();
  sim.RunFor(absl::Minutes(3));
  EXPECT_TRUE(pull->status.ok()) << pull->status;
  EXPECT_GT(handled, 1);
}

// Every 64 KiB are progress, but the whole is too slow.
TEST_F(SlowLinkTest, ATrickleEndsAtTheLongestTime) {
  Connect(kBytesPerSecondMin / 2);
  const auto pull = Pull(4 * kMiB);
  sim.RunFor(absl::Minutes(5));
  EXPECT_EQ(ClassOf(pull->status), proto::PS_LOST) << pull->status;
  EXPECT_LE(pull->at, LongestTime(absl::Seconds(10), 4 * kMiB) + absl::Milliseconds(1));
  EXPECT_EQ(handled, 1) << "another attempt would trickle too";
}

TEST_F(SlowLinkTest, TheCallersDeadlineEndsACallWhoseBytesMove) {
  Connect(100e3);
  PsCaller caller;
  caller.deadline = begin + absl::Seconds(20);
  const auto pull = Pull(4 * kMiB, caller);
  sim.RunFor(absl::Minutes(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(pull->status)) << pull->status;
  EXPECT_EQ(pull->at, absl::Seconds(20));
}

}  // namespace
}  // namespace cohort
