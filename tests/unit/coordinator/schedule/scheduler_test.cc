#include "coordinator/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

TEST_F(SchedulerTest, RegistersTheProgramOnceThenRuns) {
  Make(2);
  const auto first = Schedule();
  const auto second = Schedule();
  const auto channel = AddWorker(0);
  channel->AnswerPreparations();
  ASSERT_EQ(channel->calls.size(), 2u);
  channel->AnswerRun(absl::OkStatus());
  ASSERT_TRUE(first->IsReady());
  EXPECT_EQ(*first->result()->at(0).data<float>(), 42.0f);
  EXPECT_FALSE(second->IsReady());
  const auto third = Schedule();
  channel->AnswerRun(absl::OkStatus());
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(third->IsReady());
  // Two closures were in flight before the first registration was answered; the third needs none.
  EXPECT_EQ(channel->preparations.size(), 2u);
}

TEST_F(SchedulerTest, NeverHasMoreThanKClosuresInFlightOnAWorker) {
  Make(2);
  const auto channel = AddWorker(0);
  for (int i = 0; i < 5; ++i) Schedule();
  EXPECT_EQ(channel->calls.size(), 2u);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(channel->calls.size(), 2u);
}

TEST_F(SchedulerTest, SpreadsClosuresOverWorkers) {
  Make(2);
  const auto a = AddWorker(0);
  const auto b = AddWorker(1);
  const auto c = AddWorker(2);
  for (int i = 0; i < 3; ++i) Schedule();
  EXPECT_EQ(a->calls.size(), 1u);
  EXPECT_EQ(b->calls.size(), 1u);
  EXPECT_EQ(c->calls.size(), 1u);
}

TEST_F(SchedulerTest, ScheduleWaitsWhileTheQueueIsFull) {
  Make(1, /*bound=*/2);
  const auto channel = AddWorker(0);
  for (int i = 0; i < 3; ++i) Schedule();
  EXPECT_EQ(admitted.size(), 2u);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(admitted.size(), 3u);
}

TEST_F(SchedulerTest, JoinWaitsForEverythingAndHoldsBackWhatIsScheduledMeanwhile) {
  Make(2);
  const auto channel = AddWorker(0);
  Schedule();
  Join();
  const auto late = Schedule();
  EXPECT_TRUE(joined.empty());
  EXPECT_EQ(admitted.size(), 1u);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].ok());
  EXPECT_EQ(admitted.size(), 2u);
  EXPECT_FALSE(late->IsReady());
}

TEST_F(SchedulerTest, JoinOnAnIdleQueueReturnsAtOnce) {
  Make(1);
  Join();
  Join();
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_TRUE(joined[1].ok());
}

TEST_F(SchedulerTest, AClosureOfALostWorkerRunsOnAnother) {
  Make(1);
  const auto first = AddWorker(0);
  const auto value = Schedule();
  first->AnswerPreparations();
  first->AnswerRun(absl::UnavailableError("connection reset"));
  EXPECT_EQ(suspects, std::vector<int>{0});
  EXPECT_TRUE(first->calls.empty()) << "a suspect takes nothing more";
  const auto second = AddWorker(1);
  second->AnswerPreparations();
  EXPECT_EQ(second->Peek().closure_id(), 1u) << "the same closure";
  EXPECT_EQ(second->Peek().attempt(), 2u);
  second->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->IsReady());
  EXPECT_TRUE(value->result().ok());
}

TEST_F(SchedulerTest, NoClosureStartsTooFarAheadOfTheOldest) {
  steps_ahead_max = 2;
  Make(4);
  const auto slow = AddWorker(0);
  const auto fast = AddWorker(1);
  for (int i = 0; i < 6; ++i) Schedule();
  slow->AnswerPreparations();  // closures 1 and 3
  fast->AnswerPreparations();
  ASSERT_EQ(fast->Peek().closure_id(), 2u);
  fast->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(fast->calls.empty()) << "4 is more than 2 ahead of 1";
  EXPECT_THAT(scheduler->DescribeWait(), HasSubstr("those from 4 on are too far ahead of 1"));
  // A lost worker's closures have not ended: they run elsewhere, before anything newer.
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  ASSERT_EQ(fast->calls.size(), 2u);
  EXPECT_EQ(fast->Peek().closure_id(), 1u);
  fast->AnswerRun(absl::OkStatus());
  EXPECT_EQ(fast->calls.size(), 3u) << "up to 5, which is 2 ahead of 3";
}

TEST_F(SchedulerTest, ARestartedWorkerGetsItsResourcesAgain) {
  Make(1);
  const auto before = AddWorker(0, /*incarnation=*/1);
  Schedule();
  before->AnswerPreparations();
  before->AnswerRun(absl::OkStatus());
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  const auto after = AddWorker(0, /*incarnation=*/2);
  Schedule();
  after->AnswerPreparations();
  EXPECT_EQ(after->preparations.size(), 1u);
  ASSERT_EQ(after->calls.size(), 1u);
}

TEST_F(SchedulerTest, AReconnectedWorkerKeepsItsResources) {
  Make(1);
  const auto before = AddWorker(0, /*incarnation=*/1);
  Schedule();
  before->AnswerPreparations();
  before->AnswerRun(absl::OkStatus());
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  const auto after = AddWorker(0, /*incarnation=*/1);
  Schedule();
  ASSERT_EQ(after->calls.size(), 1u);
  EXPECT_EQ(after->calls.front().method, ScriptedChannel::kRun);
}

TEST_F(SchedulerTest, AWorkerThatForgotItsProgramGetsItAgain) {
  Make(1);
  const auto channel = AddWorker(0);
  const auto value = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(MakeError(absl::StatusCode::kNotFound, "no program p1", proto::TRANSIENT));
  channel->AnswerPreparations();
  EXPECT_EQ(channel->preparations.size(), 2u);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
}

TEST_F(SchedulerTest,
       TheFirstErrorIsRaisedOnceAfterInFlightClosuresEndedAndQueuedOnesAreCancelled) {
  Make(2);
  const auto channel = AddWorker(0);
  const auto bad = Schedule();
  const auto running = Schedule();
  const auto queued = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(
      MakeError(absl::StatusCode::kInvalidArgument, "bad batch", proto::APPLICATION));
  Join();
  EXPECT_TRUE(joined.empty()) << "a closure still runs";
  EXPECT_EQ(queued->result().status().code(), absl::StatusCode::kCancelled);
  channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "bad batch");
  EXPECT_EQ(DetailOf(joined[0]).origin().index(), 0);
  EXPECT_EQ(DetailOf(joined[0]).origin().role(), "worker");
  EXPECT_EQ(bad->result().status().message(), "bad batch");
  EXPECT_TRUE(running->result().ok());
  Join();
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_TRUE(joined[1].ok()) << "the error is cleared";
  const auto next = Schedule();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(next->result().ok()) << "the scheduler stays usable";
}

TEST_F(SchedulerTest, AScheduleThatObservesAnErrorCancelsItsOwnClosure) {
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::InternalError("boom"));
  const auto value = Schedule();
  ASSERT_EQ(admitted.size(), 2u);
  EXPECT_EQ(admitted[1].message(), "boom");
  EXPECT_EQ(value->result().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(SchedulerTest, CheckDoneTellsAndRaises) {
  Make(1);
  std::optional<absl::StatusOr<bool>> done;
  const auto check = [&] {
    scheduler->CheckDone([&](absl::StatusOr<bool> result) { done = std::move(result); });
  };
  check();
  EXPECT_TRUE(**done);
  const auto channel = AddWorker(0);
  Schedule();
  check();
  EXPECT_FALSE(**done);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::InternalError("boom"));
  check();
  EXPECT_EQ(done->status().message(), "boom");
}

TEST_F(SchedulerTest, AClosureThatKeepsFailingIsGivenUp) {
  Make(1, 100, /*attempts_max=*/3);
  const auto value = Schedule();
  const auto channel = AddWorker(0);
  channel->AnswerPreparations();
  for (int i = 0; i < 3; ++i) {
    channel->AnswerRun(MakeError(absl::StatusCode::kUnavailable, "busy", proto::TRANSIENT));
  }
  ASSERT_TRUE(value->IsReady());
  EXPECT_EQ(value->result().status().message(), "closure 1 failed 3 times, the last time: busy");
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_FALSE(joined[0].ok());
}

TEST_F(SchedulerTest, ADroppedResultIsNotKept) {
  Make(1);
  const auto channel = AddWorker(0);
  std::weak_ptr<RemoteValueState> weak = Schedule();
  EXPECT_TRUE(weak.expired());
  channel->AnswerPreparations();
  EXPECT_TRUE(channel->Peek().discard_fetches());
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().done, 1u);
  const auto kept = Schedule();
  EXPECT_FALSE(channel->Peek().discard_fetches());
}

TEST_F(SchedulerTest, TheWatermarkTravelsWithTheClosure) {
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  channel->AnswerPreparations();
  EXPECT_EQ(channel->Peek().watermark(), 1u);
  channel->AnswerRun(absl::OkStatus());
  Schedule();
  EXPECT_EQ(channel->Peek().watermark(), 2u);
}

TEST_F(SchedulerTest, RecordErrorReachesAWaitingJoin) {
  Make(1);
  Schedule();  // no worker: it stays queued
  Join();
  scheduler->RecordError(
      MakeError(absl::StatusCode::kUnavailable, "ps:0 was lost", proto::PS_LOST));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(ClassOf(joined[0]), proto::PS_LOST);
}

}  // namespace
}  // namespace cohort
