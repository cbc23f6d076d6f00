// Closures that were done before a restore and run again: however they end, they have ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SchedulerReplays : public SchedulerTest {
 protected:
  std::shared_ptr<ScriptedChannel> NewWorker() {
    auto channel = AddWorker(0, ++incarnation_);
    channel->AnswerPreparations();
    return channel;
  }
  // One closure was done, and is to run again.
  std::shared_ptr<ScriptedChannel> ReplayOne() {
    redo_max = 100;
    Make(2, 100, /*attempts_max=*/3);
    const auto channel = NewWorker();
    Schedule();
    channel->AnswerPreparations();
    channel->AnswerRun(absl::OkStatus());
    scheduler->Pause("ps:0 was lost");
    scheduler->Resume(8);
    return NewWorker();
  }
  // Both of a round of two were done, and are to run again, one after another.
  std::shared_ptr<ScriptedChannel> ReplayARound() {
    redo_max = 100;
    Make(1);
    const auto channel = NewWorker();
    round = {1, 2};
    for (int i = 0; i < 2; ++i) values.push_back(Schedule());
    channel->AnswerPreparations();
    for (int i = 0; i < 2; ++i) channel->AnswerRun(absl::OkStatus());
    scheduler->Pause("ps:0 was lost");
    scheduler->Resume(8);
    return NewWorker();
  }
  size_t WaitStable() {
    scheduler->WhenStable([this](absl::Status status) { stable.push_back(status); });
    return stable.size();
  }
  void AnswerFences() {
    while (!fences.empty()) {
      auto fence = std::move(fences.back());
      fences.pop_back();
      fence.second(absl::OkStatus());
    }
  }

  std::vector<std::shared_ptr<RemoteValueState>> values;
  std::vector<absl::Status> stable;
  uint64_t incarnation_ = 0;
};

TEST_F(SchedulerReplays, OneThatFailsHasEnded) {
  const auto again = ReplayOne();
  EXPECT_EQ(WaitStable(), 0u);
  again->AnswerRun(absl::InternalError("no memory"));
  EXPECT_EQ(stable.size(), 1u);
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "no memory");
  EXPECT_EQ(WaitStable(), 2u);
  scheduler->Pause("once more");
  scheduler->Resume(9);
  EXPECT_EQ(WaitStable(), 3u) << "another restore does not run it again";
}

TEST_F(SchedulerReplays, OneThatHasUsedUpItsAttemptsHasEnded) {
  const auto again = ReplayOne();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(WaitStable(), 0u);
    again->AnswerRun(MakeError(absl::StatusCode::kUnavailable, "busy", proto::TRANSIENT));
  }
  EXPECT_EQ(stable.size(), 3u);
  Join();
  AnswerFences();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(std::string(joined[0].message()), HasSubstr("failed 3 times"));
}

TEST_F(SchedulerReplays, OneThatIsQuarantinedHasEnded) {
  for (const Quarantine how : {Quarantine::kFail, Quarantine::kSkip}) {
    quarantine = how;
    stable.clear();
    auto again = ReplayOne();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(WaitStable(), 0u);
      stable.clear();
      ASSERT_EQ(again->calls.size(), 1u);
      again->AnswerRun(absl::UnavailableError("connection reset"));
      if (i < 2) again = NewWorker();
    }
    EXPECT_EQ(scheduler->stats().quarantined, 1u);
    EXPECT_EQ(WaitStable(), 1u + 3u) << scheduler->DescribeWait();
  }
}

// A job reads what it has trained: an evaluation behind the last step. Its closures must not run
// beside steps that a restore has taken back.
TEST_F(SchedulerReplays, WhatWasScheduledBehindThemWaitsUntilTheyHaveRunAgain) {
  redo_max = 100;
  Make(/*in_flight=*/3);
  const auto channel = NewWorker();
  for (int i = 0; i < 2; ++i) Schedule();
  channel->AnswerPreparations();
  for (int i = 0; i < 2; ++i) channel->AnswerRun(absl::OkStatus());
  Schedule();
  scheduler->Pause("ps:0 was lost");
  scheduler->Resume(8);
  const auto again = NewWorker();
  // The two steps were scheduled together, and run together again.
  ASSERT_EQ(again->calls.size(), 2u);
  EXPECT_THAT(scheduler->DescribeWait(), HasSubstr("wait until the closures before 3 have run"));
  again->AnswerRun(absl::OkStatus());
  ASSERT_EQ(again->calls.size(), 1u);
  EXPECT_EQ(again->Peek().closure_id(), 2u);
  again->AnswerRun(absl::OkStatus());
  ASSERT_EQ(again->calls.size(), 1u);
  EXPECT_EQ(again->Peek().closure_id(), 3u);
}

// Who waits for variables is not kept from them by an error that nobody observes, though what
// stands before a replay in the queue would be cancelled by it.
TEST_F(SchedulerReplays, AnErrorThatNobodyObservesDoesNotKeepVariablesFromComing) {
  redo_max = 100;
  Make(2);
  const auto channel = NewWorker();
  for (int i = 0; i < 2; ++i) Schedule();
  channel->AnswerPreparations();
  const auto first = std::move(channel->calls.front());
  channel->calls.pop_front();
  channel->AnswerRun(absl::OkStatus());  // the second one
  scheduler->Pause("ps:0 was lost");
  scheduler->Resume(8);
  scheduler->RecordError(absl::InternalError("an error"));
  const auto again = NewWorker();
  EXPECT_TRUE(again->calls.empty());
  EXPECT_EQ(WaitStable(), 0u);
  again->AnswerPreparations();
  ASSERT_EQ(again->calls.size(), 2u);
  for (int i = 0; i < 2; ++i) again->AnswerRun(absl::OkStatus());
  EXPECT_EQ(stable.size(), 1u);
}

TEST_F(SchedulerReplays, AnErrorThatWaitsDoesNotBreakTheirRoundOff) {
  const auto again = ReplayARound();
  scheduler->RecordError(absl::InternalError("an error"));
  Join();
  again->AnswerRun(absl::OkStatus());  // slices keep it until the other one comes
  EXPECT_TRUE(joined.empty());
  EXPECT_EQ(WaitStable(), 0u);
  // Nor does a checkpoint take the round for a broken one in between.
  EXPECT_FALSE(scheduler->HoldRounds([](const absl::Status&) {}).has_value());
  scheduler->EndSnapshots();
  again->AnswerPreparations();
  ASSERT_EQ(again->calls.size(), 1u);
  again->AnswerRun(absl::OkStatus(), /*round_applied=*/true);
  EXPECT_EQ(scheduler->stats().replayed, 2u);
  EXPECT_EQ(stable.size(), 1u);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "an error");
}

// The other's result was given: what it has pushed counts, as a smaller round.
TEST_F(SchedulerReplays, OneThatFailsLeavesASmallerRoundToTheOthers) {
  const auto again = ReplayARound();
  Join();
  EXPECT_EQ(again->Peek().aggregate(), 2u);
  again->AnswerRun(absl::OkStatus());
  again->AnswerPreparations();
  again->AnswerRun(absl::InternalError("no memory"));
  EXPECT_TRUE(joined.empty());
  again->AnswerPreparations();
  ASSERT_EQ(again->calls.size(), 1u);
  EXPECT_EQ(again->Peek().closure_id(), 1u);
  EXPECT_EQ(again->Peek().aggregate(), 1u);
  again->AnswerRun(absl::OkStatus(), /*round_applied=*/true);
  AnswerFences();
  EXPECT_EQ(scheduler->stats().replayed, 1u);
  EXPECT_EQ(WaitStable(), 1u);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "no memory");
}

// A checkpoint that was due and could not begin is due again.
TEST_F(SchedulerReplays, ACheckpointThatFailsBeforeItsSnapshotsIsAskedForAgain) {
  redo_max = 100;
  checkpoint_every = 2;
  Make(2);
  const auto channel = NewWorker();
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Schedule();
      channel->AnswerPreparations();
      channel->AnswerRun(absl::OkStatus());
    }
  };
  run(2);
  EXPECT_EQ(checkpoints_asked, 1);
  scheduler->EndSnapshots();  // as Recovery does when the directory cannot be written to
  EXPECT_EQ(checkpoints_asked, 1) << "not at once: it would fail in a circle";
  run(2);
  EXPECT_EQ(checkpoints_asked, 2);
}

}  // namespace
}  // namespace cohort
