// Gang closures of several workers: sent to all or to none, and awaited from all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kEndGangs[] = "/cohort.proto.WorkerService/EndGangs";

class SchedulerGroupGangs : public SchedulerTest {
 protected:
  void MakeGroup(int size, int in_flight = 2) {
    gang_size = size;
    Make(in_flight);
  }
  void ScheduleGangs(int count) {
    gang = true;
    for (int i = 0; i < count; ++i) {
      ++round.number;
      Schedule();
    }
  }
  void ScheduleSingle() {
    gang = false;
    const Round before = std::exchange(round, Round());
    Schedule();
    round = before;
  }
  static proto::RunClosureRequest RequestOf(const ScriptedChannel::OpenCall& call) {
    proto::RunClosureRequest request;
    request.ParseFromString(call.request.header);
    return request;
  }
  static void DropEndGangs(ScriptedChannel& channel) {
    std::erase_if(channel.calls, [](const auto& call) { return call.method == kEndGangs; });
  }
  // The closures that the worker has been sent.
  static std::vector<uint64_t> Sent(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    std::vector<uint64_t> sent;
    for (const auto& call : channel.calls) {
      if (call.method == ScriptedChannel::kRun) sent.push_back(RequestOf(call).closure_id());
    }
    return sent;
  }
  // Registrations go to all, and the closures behind them when all have answered.
  template <typename... Channels>
  static void Prepare(Channels&... channels) {
    for (int round = 0; round < 3; ++round) (channels.AnswerPreparations(), ...);
  }
};

TEST_F(SchedulerGroupGangs, AGangIsSentWhenAllWorkersHaveRoom) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  ScheduleGangs(1);
  EXPECT_TRUE(first->calls.empty()) << "one of two is no gang";
  const auto second = AddWorker(1);
  Prepare(*first, *second);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_THAT(Sent(*second), ElementsAre(1));
  const proto::RunClosureRequest request = RequestOf(first->calls.front());
  EXPECT_EQ(request.SerializeAsString(), RequestOf(second->calls.front()).SerializeAsString())
      << "each finds itself among the members";
  ASSERT_EQ(request.gang().members_size(), 2);
  EXPECT_EQ(request.gang().members(0).address(), "host-0");
  EXPECT_EQ(request.gang().members(1).task().index(), 1);
  first->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 0u);
  second->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u);
}

// A stream of single closures does not starve a gang: what is behind it waits until it was sent.
TEST_F(SchedulerGroupGangs, AGangThatWaitsKeepsTheRoomThatComes) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleSingle();
  ScheduleSingle();
  ScheduleGangs(1);
  ScheduleSingle();
  Prepare(*first, *second);
  ASSERT_THAT(Sent(*first), ElementsAre(1));
  ASSERT_THAT(Sent(*second), ElementsAre(2));
  first->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(Sent(*first).empty()) << "4 may not take it";
  second->AnswerRun(absl::OkStatus());
  Prepare(*first, *second);
  EXPECT_THAT(Sent(*first), ElementsAre(3));
  EXPECT_THAT(Sent(*second), ElementsAre(3));
}

TEST_F(SchedulerGroupGangs, WhenOneMemberFailsTheOthersAreTold) {
  MakeGroup(3, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  const auto third = AddWorker(2);
  ScheduleGangs(2);
  Join();
  Prepare(*first, *second, *third);
  second->AnswerRun(MakeError(absl::StatusCode::kInvalidArgument, "bad data", proto::APPLICATION));
  for (const auto& other : {first, third}) {
    ASSERT_EQ(other->calls.size(), 2u) << "the closure, and that its generation ends";
    EXPECT_EQ(other->calls.back().method, kEndGangs);
    proto::EndGangsRequest told;
    told.ParseFromString(other->calls.back().request.header);
    EXPECT_THAT(told.message(), testing::MatchesRegex("worker:1.*: bad data"));
    EXPECT_EQ(told.detail().origin().index(), 1);
    EXPECT_EQ(told.gang().generation(), 1u);
    EXPECT_FALSE(told.detail().given_up()) << "it is still there";
  }
  third->AnswerRun(MakeError(absl::StatusCode::kAborted, "told so", proto::TRANSIENT));
  EXPECT_TRUE(joined.empty()) << "the first one may still be at it";
  first->AnswerRun(MakeError(absl::StatusCode::kAborted, "told so", proto::TRANSIENT));
  for (auto& fence : fences) fence.second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(joined[0].message(), HasSubstr("bad data")) << "the root cause, not what followed";
  EXPECT_TRUE(out_of_step.empty()) << "none has made the step, and all know it";
}

// A step that some have made is made: with it go those that have it.
TEST_F(SchedulerGroupGangs, WhoDidNotEndWhatAnotherHasEndedIsOutOfStep) {
  MakeGroup(3, 2);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  const auto third = AddWorker(2);
  ScheduleGangs(3);
  Prepare(*first, *second, *third);
  const auto aborted = [] {
    return MakeError(absl::StatusCode::kUnavailable, "rank 2 was lost", proto::WORKER_LOST);
  };
  third->AnswerRun(absl::UnavailableError("connection reset"));
  second->AnswerRun(absl::OkStatus(), true);
  first->AnswerRun(aborted());
  EXPECT_EQ(scheduler->stats().done, 1u);
  EXPECT_THAT(out_of_step, ElementsAre(0, 2));
  EXPECT_EQ(first->calls.size(), 2u) << "told of one, and the second step";
  // Nothing else is sent before all of it has come back; and then to the second alone.
  third->AnswerRun(absl::UnavailableError("connection reset"));
  second->AnswerRun(aborted());
  first->AnswerRun(aborted());
  EXPECT_THAT(out_of_step, ElementsAre(0, 2)) << "once";
  EXPECT_THAT(Sent(*second), ElementsAre(2, 3));
  EXPECT_EQ(RequestOf(second->calls.front()).gang().members_size(), 1);
  EXPECT_EQ(RequestOf(second->calls.front()).gang().generation(), 2u);
}

// The first has made a step and is gone, say the others, which have not: whoever takes its word has
// nobody left in step.
class SchedulerDoubtedGang : public SchedulerGroupGangs {
 protected:
  SchedulerDoubtedGang() {
    fences_workers = true;
    MakeGroup(3, 1);
    for (int worker = 0; worker < 3; ++worker) workers_.push_back(AddWorker(worker));
    ScheduleGangs(2);
    Prepare(*workers_[0], *workers_[1], *workers_[2]);
    workers_[0]->AnswerRun(absl::OkStatus(), true);
    for (const int other : {1, 2}) {
      workers_[static_cast<size_t>(other)]->AnswerRun(WithOrigin(
          MakeError(absl::StatusCode::kUnavailable, "rank 0 was lost", proto::WORKER_LOST),
          Worker(0, 1)));
    }
  }
  ScriptedChannel& Of(size_t worker) { return *workers_[worker]; }

  std::vector<std::shared_ptr<ScriptedChannel>> workers_;
};

TEST_F(SchedulerDoubtedGang, AStepThatOnlyALostMemberHasMadeIsMadeAgain) {
  EXPECT_TRUE(out_of_step.empty());
  ASSERT_EQ(Of(0).calls.size(), 1u) << "it is asked whether it is there";
  ASSERT_EQ(Of(0).calls.front().method, kEndGangs);
  Of(0).AnswerRun(absl::UnavailableError("connection reset"));
  EXPECT_THAT(out_of_step, ElementsAre(0));
  EXPECT_EQ(scheduler->stats().done, 0u);
  for (auto& fence : std::exchange(fences, {})) fence.second(absl::OkStatus());
  Prepare(Of(1), Of(2));
  EXPECT_THAT(Sent(Of(1)), ElementsAre(1)) << "again, by two";
  EXPECT_EQ(RequestOf(Of(1).calls.front()).gang().members_size(), 2);
}

TEST_F(SchedulerDoubtedGang, AMemberThatIsLostWhileItIsAskedIsNotWaitedFor) {
  scheduler->WorkerLost(0, absl::UnavailableError("silent"));
  EXPECT_THAT(out_of_step, ElementsAre(0));
  EXPECT_EQ(scheduler->stats().done, 0u);
}

TEST_F(SchedulerDoubtedGang, AMemberThatIsThereHasMadeItsStep) {
  Of(0).calls.front().done(Message{});
  Of(0).calls.pop_front();
  EXPECT_THAT(out_of_step, ElementsAre(1, 2));
  EXPECT_EQ(scheduler->stats().done, 1u);
}

TEST_F(SchedulerGroupGangs, WhatALostMemberHasAnsweredDoesNotCount) {
  fences_workers = true;
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(1);
  Prepare(*first, *second);
  first->AnswerRun(absl::OkStatus(), true);
  scheduler->WorkerLost(0, absl::UnavailableError("silent"));
  second->AnswerRun(MakeError(absl::StatusCode::kAborted, "told so", proto::TRANSIENT));
  EXPECT_THAT(out_of_step, ElementsAre(0)) << "the second one is all that is left";
  EXPECT_EQ(scheduler->stats().done, 0u);
}

TEST_F(SchedulerGroupGangs, AWorkerThatIsInStepAgainIsInTheNextGeneration) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(2);
  Prepare(*first, *second);
  const uint64_t session = RequestOf(first->calls.front()).session();
  second->AnswerRun(absl::UnavailableError("connection reset"));
  EXPECT_TRUE(out_of_step.empty()) << "the first may have ended it";
  first->AnswerRun(
      WithOrigin(MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST),
                 Worker(1, 1)));
  EXPECT_THAT(out_of_step, ElementsAre(1));
  EXPECT_THAT(suspects, ElementsAre(1)) << "and not the other one";
  first->calls.pop_front();  // EndGangs
  Prepare(*first);
  EXPECT_THAT(Sent(*first), ElementsAre(1)) << "alone";
  const auto again = AddWorker(1, 2);
  EXPECT_NE(RequestOf(first->calls.front()).session(), session)
      << "what the first attempt may still push is fenced";
  bool held = false;
  scheduler->HoldGangs([&](absl::Status) { held = true; });
  EXPECT_FALSE(held) << "one is under way";
  first->AnswerRun(absl::OkStatus(), true);
  EXPECT_TRUE(held);
  EXPECT_TRUE(Sent(*first).empty());
  scheduler->InStep(1);
  EXPECT_TRUE(Sent(*first).empty());
  scheduler->ReleaseGangs();
  Prepare(*first, *again);
  EXPECT_THAT(Sent(*first), ElementsAre(2));
  EXPECT_THAT(Sent(*again), ElementsAre(2));
  const proto::RunClosureRequest request = RequestOf(first->calls.front());
  EXPECT_EQ(request.gang().generation(), 3u);
  EXPECT_EQ(request.gang().members(1).task().incarnation(), 2u);
}

TEST_F(SchedulerGroupGangs, AMemberThatIsSilentIsNotWaitedForWhenItIsLost) {
  fences_workers = true;
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(1);
  Prepare(*first, *second);
  scheduler->WorkerLost(1, absl::UnavailableError("silent"));
  EXPECT_THAT(out_of_step, ElementsAre(1));
  EXPECT_EQ(first->calls.back().method, kEndGangs) << "it may wait for the silent one";
  proto::EndGangsRequest told;
  told.ParseFromString(first->calls.back().request.header);
  EXPECT_TRUE(told.detail().given_up());
  first->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u) << "it had ended it before it heard";
  second->AnswerRun(absl::OkStatus(), true);  // too late
  EXPECT_EQ(scheduler->stats().done, 1u);
}

// A fence that is under way, and the third member that it was asked of. The group goes on without
// the third member when a fence that was asked of the others alone is answered.
class FenceOfAGang : public SchedulerGroupGangs {
 protected:
  void BreakTheCallOfTheSecond() {
    fences_workers = true;
    MakeGroup(3, 1);
    first_ = AddWorker(0);
    const auto second = AddWorker(1);
    const auto third = AddWorker(2);
    ScheduleGangs(1);
    Prepare(*first_, *second, *third);
    second->AnswerRun(absl::UnavailableError("connection reset"));
    const absl::Status lost =
        MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST);
    first_->AnswerRun(WithOrigin(lost, Worker(1, 1)));
    third->AnswerRun(WithOrigin(lost, Worker(1, 1)));
    EXPECT_THAT(out_of_step, ElementsAre(1));
    ASSERT_EQ(fences.size(), 1u);
  }
  void ExpectAskedAgain() {
    EXPECT_THAT(out_of_step, ElementsAre(1, 2));
    ASSERT_EQ(fences.size(), 2u);
    EXPECT_EQ(fences[1].first, fences[0].first);
    fences[1].second(absl::OkStatus());
    first_->calls.pop_front();  // EndGangs
    Prepare(*first_);
    EXPECT_THAT(Sent(*first_), ElementsAre(1)) << "alone";
  }

 private:
  std::shared_ptr<ScriptedChannel> first_;
};

TEST_F(FenceOfAGang, IsAskedAgainWithoutAMemberThatIsLostMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(BreakTheCallOfTheSecond());
  scheduler->WorkerLost(2, absl::UnavailableError("silent"));
  ExpectAskedAgain();
}

TEST_F(FenceOfAGang, IsAskedAgainWithoutAMemberThatIsLeftOutMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(BreakTheCallOfTheSecond());
  scheduler->SetApart({.idle = {}, .left_out = {2}});
  ExpectAskedAgain();
}

// What a fence takes back is what has failed: an older step, which one member has made and the
// other one has not answered for, is made.
TEST_F(SchedulerGroupGangs, AStepThatAMemberHasMadeIsNotTakenBackWithALaterOne) {
  fences_workers = true;
  MakeGroup(2, 2);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(2);
  Prepare(*first, *second);
  first->AnswerRun(absl::OkStatus(), true);
  ScriptedChannel::OpenCall silent = std::move(second->calls.front());
  second->calls.pop_front();
  second->AnswerRun(absl::UnavailableError("connection reset"));
  EXPECT_EQ(scheduler->stats().done, 0u) << "the first one may still end the second step";
  first->AnswerRun(
      WithOrigin(MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST),
                 Worker(1, 1)));
  EXPECT_THAT(out_of_step, ElementsAre(1));
  EXPECT_EQ(scheduler->stats().done, 1u) << "nobody waits for what the second one says of it";
  ASSERT_EQ(fences.size(), 1u);
  fences[0].second(absl::OkStatus());
  first->calls.pop_front();  // EndGangs
  Prepare(*first);
  EXPECT_THAT(Sent(*first), ElementsAre(2)) << "and the first step is not run again";
  silent.done(absl::UnavailableError("too late"));
  EXPECT_THAT(Sent(*first), ElementsAre(2));
}

// Both are there, and do not reach each other: time may heal that.
TEST_F(SchedulerGroupGangs, MembersThatDoNotReachOneAnotherAreTriedAgainAfterAPauseThatGrows) {
  gang_size = 2;
  constexpr uint32_t kAttempts = 10;
  Make(1, 100, kAttempts);
  const auto first = AddWorker(0), second = AddWorker(1);
  ScheduleGangs(1);
  Join();
  Prepare(*first, *second);
  const auto not_reached =
      WithOrigin(MakeError(absl::StatusCode::kUnavailable,
                           "rank 1, worker:1, was lost: rank 0, worker:0, does not reach it",
                           proto::WORKER_LOST),
                 Worker(1, 1));
  const auto other_side = WithDetail(
      absl::UnavailableError(absl::StrCat(
          not_reached.message(), "; besides, rank 1, worker:1, does not reach rank 0, worker:0")),
      DetailOf(not_reached));
  std::vector<int64_t> pauses;
  for (uint32_t attempt = 1; attempt <= kAttempts; ++attempt) {
    ASSERT_EQ(Sent(*first).size(), 1u) << "attempt " << attempt;
    first->AnswerRun(not_reached);
    second->AnswerRun(other_side);
    DropEndGangs(*second);  // it is there, and nobody suspects it
    const absl::Time failed = sim.Now();
    if (attempt == kAttempts) break;
    while (first->calls.empty()) ASSERT_TRUE(sim.Step());
    Prepare(*first, *second);
    pauses.push_back(absl::ToInt64Milliseconds(sim.Now() - failed));
  }
  EXPECT_THAT(pauses, ElementsAre(0, 100, 200, 400, 800, 1600, 3200, 6400, 12800));
  for (auto& fence : fences) fence.second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(std::string(joined[0].message()), HasSubstr("failed 10 times"));
  EXPECT_THAT(std::string(joined[0].message()),
              HasSubstr("rank 0, worker:0, does not reach it; besides, rank 1, worker:1, does not "
                        "reach rank 0, worker:0"));
  EXPECT_TRUE(out_of_step.empty()) << "both have what is done";
}

TEST_F(SchedulerGroupGangs, OtherMembersAreTriedAtOnce) {
  gang_size = 3;
  Make(1, 100, 10);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  const auto third = AddWorker(2);
  ScheduleGangs(1);
  Prepare(*first, *second, *third);
  const auto not_reached =
      WithOrigin(MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST),
                 Worker(1, 1));
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_EQ(Sent(*first).size(), 1u);
    for (const auto& channel : {first, second, third}) channel->AnswerRun(not_reached);
    for (const auto& channel : {second, third}) DropEndGangs(*channel);
    Prepare(*first, *second, *third);
  }
  EXPECT_TRUE(first->calls.empty()) << "a pause";
  scheduler->WorkerLost(1, absl::UnavailableError("silent"));
  Prepare(*first, *third);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_THAT(Sent(*third), ElementsAre(1));
}

TEST_F(SchedulerGroupGangs, SingleClosuresRunWhereTheVariablesAreAsTheyShould) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  AddWorker(1);
  scheduler->WorkerLost(1, absl::UnavailableError("gone"));
  const auto again = AddWorker(1, 2);
  ScheduleSingle();
  ScheduleSingle();
  Prepare(*first, *again);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_TRUE(again->calls.empty());
  scheduler->InStep(1);
  Prepare(*first, *again);
  EXPECT_THAT(Sent(*again), ElementsAre(2));
}

TEST_F(SchedulerGroupGangs, WithTooFewInStepGangsWait) {
  gang_min = 2;
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  AddWorker(1);
  scheduler->WorkerLost(1, absl::UnavailableError("gone"));
  ScheduleGangs(1);
  EXPECT_TRUE(first->calls.empty());
  const auto again = AddWorker(1, 2);
  EXPECT_TRUE(first->calls.empty());
  scheduler->InStep(1);
  Prepare(*first, *again);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_THAT(Sent(*again), ElementsAre(1));
}

}  // namespace
}  // namespace cohort
