// Calls to a server that is away for a while, in simulated time: every time is exact.

#include "worker/ps_client/ps_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cluster/process_limits.h"
#include "common/task/task_service.h"
#include "common/wire/error_detail.h"
#include "common/wire/method_table.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr absl::Duration kMs = absl::Milliseconds(1);
constexpr absl::Duration kAttempt = kMs;  // from its start to its end
constexpr absl::Duration kWindow = absl::Seconds(5);

absl::Status Refused() { return absl::UnavailableError("connection refused"); }
absl::Status Stale() {
  return MakeError(absl::StatusCode::kFailedPrecondition, "old", proto::STALE);
}

// Answers each call as it is told when the call starts; without an answer the call times out.
// Lives on the test's thread.
class ScriptedChannel final : public Channel {
 public:
  using Script = std::function<std::optional<absl::Status>()>;
  ScriptedChannel(SimWorld& world, Script script) : world_(world), script_(std::move(script)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message, absl::Duration timeout,
                              Reply done) override {
    starts.push_back(world_.Now());
    const std::optional<absl::Status> told = script_();
    const absl::Duration lasts = told.has_value() ? std::min(kAttempt, timeout) : timeout;
    const absl::Status end = lasts < timeout ? *told : NoAnswerInTime(method);
    auto open = std::make_shared<Reply>(std::move(done));
    const auto finish = [open](const absl::Status& status) {
      if (*open == nullptr) return;
      std::exchange(*open, nullptr)(status.ok() ? absl::StatusOr<Message>(Message{}) : status);
    };
    world_.CallAt(world_.Now() + lasts, [end, finish] { finish(end); });
    return std::make_unique<ScriptedCall>([&world = world_, finish] {
      world.CallAt(world.Now(), [finish] { finish(absl::CancelledError("cancelled")); });
    });
  }

  std::vector<absl::Time> starts;

 private:
  class ScriptedCall final : public Call {
   public:
    explicit ScriptedCall(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
    void Cancel() override { cancel_(); }

   private:
    const std::function<void()> cancel_;
  };

  SimWorld& world_;
  const Script script_;
};

class PsCallTest : public testing::Test {
 protected:
  // What one call came to.
  struct End {
    absl::Duration at = absl::InfiniteDuration();  // since the test's start
    absl::Status status;
  };

  PsCallTest() { link->Reroute(Route(channel, kWindow)); }
  // Attempts end, and let go what waits for them.
  void TearDown() override { sim.RunFor(absl::Minutes(1)); }

  static PsRoute Route(std::shared_ptr<Channel> to, absl::Duration window) {
    PsRoute route;
    route.task.set_role("ps");
    route.task.set_index(3);
    route.task.set_incarnation(77);
    route.address = "host:1";
    route.channel = std::move(to);
    route.window = window;
    return route;
  }

  absl::Duration Now() const { return sim.Now() - begin; }

  // Starts a call now. The reference is to its end.
  std::shared_ptr<End> Start(PsCaller caller = {}) {
    auto end = std::make_shared<End>();
    StartPsCall({sim, sim, files, *transport}, policy, link, "/a.B/C", Message{}, caller,
                [this, end](const absl::StatusOr<Message>& answer) {
                  *end = {Now(), answer.status()};
                });
    return end;
  }

  void RunTo(absl::Duration time) { sim.RunFor(time - Now()); }

  std::vector<absl::Duration> Starts() const {
    std::vector<absl::Duration> starts;
    for (const absl::Time start : channel->starts) starts.push_back(start - begin);
    return starts;
  }

  SimWorld sim{1};
  const absl::Time begin = sim.Now();
  MemoryFileSystem files;
  SimNetwork network{sim};  // not used: a world has one
  const std::unique_ptr<Transport> transport = network.TransportOf("worker:0");
  RetryPolicy policy;
  // What the server does now: fails or succeeds, or is silent.
  std::optional<absl::Status> does = Refused();
  const std::shared_ptr<ScriptedChannel> channel =
      std::make_shared<ScriptedChannel>(sim, [this] { return does; });
  const std::shared_ptr<PsLink> link = std::make_shared<PsLink>(PsRoute{}, nullptr);
};

MATCHER_P(IsLostAt, time, "") {
  *result_listener << "ended at " << absl::FormatDuration(arg->at) << " with " << arg->status;
  return arg->at == time && ClassOf(arg->status) == proto::PS_LOST;
}
MATCHER_P(IsAnsweredAt, time, "") {
  *result_listener << "ended at " << absl::FormatDuration(arg->at) << " with " << arg->status;
  return arg->at == time && arg->status.ok();
}

TEST_F(PsCallTest, BacksOffAndIsLostAtTheEndOfTheWindowAndTheLastAttempt) {
  const auto call = Start();
  RunTo(absl::Minutes(1));
  // The incident begins when the first attempt has failed.
  EXPECT_THAT(call, IsLostAt(kAttempt + kWindow + kAttempt));
  std::vector<absl::Duration> starts;
  for (const int ms :
       {0, 21, 62, 143, 304, 625, 1126, 1627, 2128, 2629, 3130, 3631, 4132, 4633, 5001}) {
    starts.push_back(ms * kMs);
  }
  EXPECT_EQ(Starts(), starts);
}

TEST_F(PsCallTest, TheReportNamesTheServer) {
  const auto call = Start();
  RunTo(absl::Minutes(1));
  EXPECT_EQ(call->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailOf(call->status).origin().ShortDebugString(),
            "role: \"ps\" index: 3 incarnation: 77");
  EXPECT_THAT(std::string(call->status.message()),
              AllOf(HasSubstr("ps:3 at host:1 cannot be reached since 5.001s"),
                    HasSubstr("15 attempts of /a.B/C (0 bytes to it, about 0 back)"),
                    HasSubstr("connection refused")));
}

TEST_F(PsCallTest, AServerIsNotBlamedForTheFilesThatThisProcessLacks) {
  does = OutOfFiles("all 40 files are in use");
  const auto call = Start();
  RunTo(absl::Minutes(1));
  EXPECT_EQ(call->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(DetailOf(call->status).has_origin()) << "its task names itself";
  EXPECT_TRUE(IsOutOfFiles(call->status));
  EXPECT_THAT(std::string(call->status.message()),
              AllOf(HasSubstr("ps:3 at host:1"), HasSubstr("all 40 files are in use")));
}

TEST_F(PsCallTest, AServerAwayForLessThanTheWindowLosesNoCall) {
  std::vector<std::shared_ptr<End>> calls;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(Start());
    RunTo(i * 100 * kMs);
  }
  RunTo(kAttempt + kWindow - kMs);
  does = absl::OkStatus();  // just before the last repeats
  RunTo(absl::Minutes(1));
  for (const auto& call : calls) {
    EXPECT_TRUE(call->status.ok()) << call->status;
    EXPECT_LE(call->at, kAttempt + kWindow + kAttempt);
  }
}

TEST_F(PsCallTest, AHundredCallsShareOneIncident) {
  std::vector<std::shared_ptr<End>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(Start());
    if (i % 10 == 9) RunTo(Now() + 50 * kMs);
  }
  RunTo(absl::Seconds(6));
  EXPECT_THAT(calls, Each(IsLostAt(kAttempt + kWindow + kAttempt)));
  EXPECT_LE(channel->starts.size(), 100u * 15);
  // Whoever comes later is tried once.
  channel->starts.clear();
  const auto late = Start();
  RunTo(absl::Minutes(1));
  EXPECT_THAT(late, IsLostAt(absl::Seconds(6) + kAttempt));
  EXPECT_EQ(channel->starts.size(), 1u);
}

TEST_F(PsCallTest, ALaterIncidentHasAWholeWindow) {
  const auto first = Start();
  RunTo(absl::Seconds(3));
  does = absl::OkStatus();
  RunTo(absl::Seconds(10));
  EXPECT_THAT(first, IsAnsweredAt(3131 * kMs));  // the next repeat, and its attempt
  does = Refused();
  const auto second = Start();
  RunTo(absl::Minutes(1));
  EXPECT_THAT(second, IsLostAt(absl::Seconds(10) + kAttempt + kWindow + kAttempt));
}

TEST_F(PsCallTest, AnIncidentEndsForAllWithTheFirstAnswer) {
  const auto waiting = Start();
  RunTo(4640 * kMs);  // the last repeat is to come, at 5001 ms
  does = absl::OkStatus();
  Start();
  RunTo(4700 * kMs);
  does = Refused();
  RunTo(absl::Minutes(1));
  // The last repeat of the first incident was the first failure of the second.
  EXPECT_THAT(waiting, IsLostAt(5002 * kMs + kWindow + kAttempt));
}

TEST_F(PsCallTest, AnAnsweredErrorIsReportedAtOnceAndEndsTheIncident) {
  const auto waiting = Start();
  RunTo(absl::Seconds(1));
  does = Stale();
  RunTo(absl::Seconds(4));
  EXPECT_EQ(waiting->at, 1127 * kMs);
  EXPECT_EQ(ClassOf(waiting->status), proto::STALE);
  EXPECT_THAT(std::string(waiting->status.message()), HasSubstr("ps:3 at host:1: old"));
  does = Refused();
  const auto later = Start();
  RunTo(absl::Minutes(1));
  EXPECT_THAT(later, IsLostAt(absl::Seconds(4) + kAttempt + kWindow + kAttempt));
}

TEST_F(PsCallTest, TheWindowIsTheLease) {
  link->Reroute(Route(channel, absl::Seconds(90)));  // longer than a call may last otherwise
  const auto call = Start();
  RunTo(absl::Minutes(5));
  EXPECT_THAT(call, IsLostAt(kAttempt + absl::Seconds(90) + kAttempt));
}

TEST_F(PsCallTest, NothingIsRepeatedBeyondTheCallersDeadline) {
  PsCaller caller;
  caller.deadline = begin + absl::Seconds(2);
  const auto call = Start(caller);
  RunTo(absl::Minutes(1));
  EXPECT_THAT(call, IsLostAt(1628 * kMs));  // the next repeat would be at 2128 ms
  EXPECT_EQ(channel->starts.size(), 8u);
}

TEST_F(PsCallTest, ADeadlineOfItsOwnIsNoFailureOfTheServer) {
  does = std::nullopt;
  PsCaller caller;
  caller.deadline = begin + absl::Seconds(2);
  const auto call = Start(caller);
  RunTo(absl::Seconds(20));
  EXPECT_EQ(call->at, absl::Seconds(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(call->status)) << call->status;
  does = Refused();
  const auto later = Start();
  RunTo(absl::Minutes(1));
  EXPECT_THAT(later, IsLostAt(absl::Seconds(20) + kAttempt + kWindow + kAttempt));
}

TEST_F(PsCallTest, AClosureThatNobodyWantsAnyMoreIsNotRepeated) {
  absl::Status wanted;
  PsCaller caller;
  caller.check = [&wanted] { return wanted; };
  const auto call = Start(caller);
  RunTo(absl::Seconds(1));
  wanted = Stale();
  RunTo(absl::Minutes(1));
  EXPECT_EQ(call->at, 1126 * kMs);  // instead of the next repeat
  EXPECT_EQ(call->status, wanted);
  EXPECT_EQ(channel->starts.size(), 6u);
}

TEST_F(PsCallTest, RepeatsFollowTheServerToItsNewAddress) {
  const auto call = Start();
  RunTo(absl::Seconds(1));
  const auto moved = std::make_shared<ScriptedChannel>(sim, [] { return absl::OkStatus(); });
  link->Reroute(Route(moved, kWindow));
  RunTo(absl::Minutes(1));
  EXPECT_THAT(call, IsAnsweredAt(1127 * kMs));
  EXPECT_EQ(moved->starts.size(), 1u);
}

// Over the connection of a process that is gone nothing would come until the attempt is over.
TEST_F(PsCallTest, WhatIsUnderWayIsMadeAgainAtOnceWhereTheServerIsNow) {
  does = std::nullopt;
  const auto call = Start();
  RunTo(absl::Seconds(1));
  const auto moved = std::make_shared<ScriptedChannel>(sim, [] { return absl::OkStatus(); });
  link->Reroute(Route(moved, kWindow));
  RunTo(absl::Minutes(1));
  EXPECT_THAT(call, IsAnsweredAt(absl::Seconds(1) + kAttempt));
  EXPECT_EQ(moved->starts.size(), 1u);
}

TEST_F(PsCallTest, WhatIsUnderWayToAProcessThatStaysGoesOn) {
  does = std::nullopt;
  const auto call = Start();
  RunTo(absl::Seconds(1));
  link->Reroute(Route(channel, kWindow));
  RunTo(absl::Seconds(9));
  EXPECT_EQ(channel->starts.size(), 1u);
  EXPECT_EQ(call->at, absl::InfiniteDuration()) << call->status;
}

TEST_F(PsCallTest, AMalformedMessageIsSentAgain) {
  does = MalformedMessage("its sum differs");
  testing::internal::CaptureStderr();
  const auto call = Start();
  RunTo(kAttempt);
  does = absl::OkStatus();
  RunTo(absl::Minutes(1));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(call, IsAnsweredAt(22 * kMs));  // the next repeat, and its attempt
  EXPECT_THAT(said, AllOf(HasSubstr("level=warning event=malformed_message task=\"ps:3 "),
                          HasSubstr("its sum differs")));
}

TEST_F(PsCallTest, AttachEndsTheIncident) {
  Start();
  RunTo(absl::Seconds(20));
  link->Reroute(Route(channel, kWindow));
  const auto later = Start();
  RunTo(absl::Minutes(1));
  EXPECT_THAT(later, IsLostAt(absl::Seconds(20) + kAttempt + kWindow + kAttempt));
}

// The server is watched while the call is open: an attempt alone may be unanswered for 10 s.
class WatchedPsCall : public PsCallTest {
 protected:
  WatchedPsCall() {
    reach->SetLease(kWindow);
    PsRoute route = Route(channel, kWindow);
    route.task.clear_incarnation();
    watched = std::make_shared<PsLink>(std::move(route), reach);
    TaskService::Options options;
    options.task = {Role::kPs, 3};
    service = std::make_unique<TaskService>(World{sim, sim, files, *there}, options);
    server = *there->Listen("host:1", {service->service()});
    does.reset();  // no call is answered
  }
  std::shared_ptr<End> Start() {
    auto end = std::make_shared<End>();
    StartPsCall({sim, sim, files, *transport}, policy, watched, "/a.B/C", Message{}, {},
                [this, end](const absl::StatusOr<Message>& answer) {
                  *end = {Now(), answer.status()};
                });
    return end;
  }

  const std::shared_ptr<PeerReach> reach =
      std::make_shared<PeerReach>(World{sim, sim, files, *transport});
  const std::unique_ptr<Transport> there = network.TransportOf("ps:3");
  std::unique_ptr<TaskService> service;
  std::unique_ptr<Server> server;
  std::shared_ptr<PsLink> watched;
};

TEST_F(WatchedPsCall, EndsWhenTheServerIsGivenUpAndTheNextOneAtOnce) {
  network.Cut("worker:0", "ps:3");
  const auto call = Start();
  RunTo(absl::Seconds(6));
  EXPECT_THAT(call, IsLostAt(kWindow));
  const auto next = Start();
  RunTo(absl::Seconds(7));
  EXPECT_THAT(next, IsLostAt(absl::Seconds(6)));
}

TEST_F(WatchedPsCall, IsRepeatedAtOnceWhenTheServerIsReachedAgain) {
  network.Cut("worker:0", "ps:3");
  const auto call = Start();
  RunTo(absl::Seconds(4));
  EXPECT_EQ(channel->starts.size(), 1u);
  does = absl::OkStatus();
  network.HealAll();
  RunTo(absl::Seconds(6));
  EXPECT_TRUE(call->status.ok() && call->at < absl::Seconds(6)) << call->status;
  EXPECT_EQ(channel->starts.size(), 2u);
}

TEST_F(WatchedPsCall, IsWaitedForWhereTheServerAnswersQuestions) {
  const auto call = Start();
  RunTo(absl::Seconds(9));
  EXPECT_EQ(call->at, absl::InfiniteDuration());
  EXPECT_EQ(channel->starts.size(), 1u);
}

}  // namespace
}  // namespace cohort
