// Synchronous closures: which start, and when they are done.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

class SchedulerRounds : public SchedulerTest {
 protected:
  // Rounds of three closures, of which two count.
  void ScheduleRounds(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      round = {static_cast<uint64_t>(i + 1), 2};
      for (int member = 0; member < 3; ++member) Schedule();
    }
  }
  std::optional<absl::Status> Hold() {
    return scheduler->HoldRounds([this](absl::Status status) { ready.push_back(status); });
  }
  std::vector<uint64_t> Running(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    std::vector<uint64_t> ids;
    for (const auto& call : channel.calls) {
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      EXPECT_EQ(request.round(), (request.closure_id() + 2) / 3);
      EXPECT_EQ(request.aggregate(), 2u);
      ids.push_back(request.closure_id());
    }
    return ids;
  }
  std::vector<absl::Status> ready;  // what Hold had to wait for
};

TEST_F(SchedulerRounds, ARoundStartsWhenTheOneBeforeIsApplied) {
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleRounds(2);
  Join();
  EXPECT_THAT(Running(*channel), testing::ElementsAre(1, 2, 3));
  channel->AnswerRun(absl::OkStatus());
  EXPECT_THAT(Running(*channel), testing::ElementsAre(2, 3));
  EXPECT_EQ(scheduler->stats().done, 0u) << "its update waits for another one's";
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().done, 2u);
  EXPECT_THAT(Running(*channel), testing::ElementsAre(3, 4, 5, 6)) << "3 is late, and awaited";
  for (int i = 0; i < 3; ++i) channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().done, 5u);
  EXPECT_TRUE(joined.empty());
  channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].ok());
  EXPECT_EQ(scheduler->stats().done, 6u);
}

TEST_F(SchedulerRounds, ALostWorkersClosureIsRunAgainAndAnswersStay) {
  Make(4);
  const auto first = AddWorker(0);
  ScheduleRounds(2);
  ASSERT_EQ(Running(*first).size(), 3u);
  first->AnswerRun(absl::OkStatus());
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  const auto second = AddWorker(1);
  EXPECT_THAT(Running(*second), testing::ElementsAre(2, 3));
  second->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().done, 2u);
  EXPECT_THAT(Running(*second), testing::ElementsAre(3, 4, 5, 6));
}

TEST_F(SchedulerRounds, NoCheckpointCoversWhatWaitsForItsRound) {
  redo_max = 100;
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleRounds(1);
  ASSERT_EQ(Running(*channel).size(), 3u);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->BeginCut().open.size(), 3u);
  channel->AnswerRun(absl::OkStatus());
  const Cut cut = scheduler->BeginCut();
  ASSERT_EQ(cut.open.size(), 1u);
  EXPECT_EQ(cut.open[0].value, 3u);
}

TEST_F(SchedulerRounds, AfterARestoreTheSlicesSayWhichRoundsTheyHave) {
  redo_max = 100;
  Make(4);
  const auto before = AddWorker(0);
  ScheduleRounds(2);
  ASSERT_EQ(Running(*before).size(), 3u);
  before->AnswerRun(absl::OkStatus());
  before->AnswerRun(absl::OkStatus());
  scheduler->CommitCut(scheduler->BeginCut());  // 1 and 2 are durable, 3 is open
  before->AnswerRun(absl::OkStatus());
  before->AnswerRun(absl::OkStatus());  // 4 waits for its round
  scheduler->Pause("a ps was lost");
  scheduler->Resume(8);
  const auto after = AddWorker(0, 2);
  EXPECT_THAT(Running(*after), testing::ElementsAre(3));
  after->AnswerRun(absl::OkStatus(), /*round_applied=*/true);
  EXPECT_THAT(Running(*after), testing::ElementsAre(4, 5, 6));
}

// Of two steps that count one has begun: no slice can have applied the round, and none will.
TEST_F(SchedulerRounds, ARoundThatHasBarelyBegunWaitsForTheSnapshots) {
  redo_max = 100;
  Make(1);
  const auto first = AddWorker(0);
  ScheduleRounds(1);
  ASSERT_THAT(Running(*first), testing::ElementsAre(1));
  EXPECT_EQ(Hold(), absl::OkStatus());
  const auto second = AddWorker(1);
  EXPECT_TRUE(Running(*second).empty());
  first->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(Running(*first).empty());
  EXPECT_EQ(scheduler->BeginSnapshots().open.size(), 3u);
  scheduler->EndSnapshots();
  EXPECT_EQ(Running(*first).size() + Running(*second).size(), 2u);
  EXPECT_TRUE(ready.empty());
}

// Once two have, some slices may have applied it: snapshots wait until all have.
TEST_F(SchedulerRounds, SnapshotsWaitForARoundThatSomeSlicesMayHave) {
  redo_max = 100;
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleRounds(2);
  ASSERT_EQ(Running(*channel).size(), 3u);
  EXPECT_FALSE(Hold().has_value());
  // A lost worker's steps run again meanwhile.
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  const auto second = AddWorker(1);
  ASSERT_THAT(Running(*second), testing::ElementsAre(1, 2, 3));
  second->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(ready.empty());
  second->AnswerRun(absl::OkStatus());
  EXPECT_THAT(ready, testing::ElementsAre(absl::OkStatus())) << "so every slice has it";
  EXPECT_THAT(Running(*second), testing::ElementsAre(3)) << "the next round is held";
  EXPECT_EQ(scheduler->BeginSnapshots().covered.size(), 2u);
  scheduler->EndSnapshots();
  EXPECT_THAT(Running(*second), testing::ElementsAre(3, 4, 5, 6));
  // A recovery ends the wait, and nobody is told.
  EXPECT_FALSE(Hold().has_value());
  scheduler->Pause("a ps was lost");
  scheduler->Resume(8);
  const auto third = AddWorker(0, 2);
  EXPECT_THAT(Running(*third), testing::ElementsAre(1, 2, 3)) << "nothing is durable";
  EXPECT_EQ(ready.size(), 1u);
}

// What may be in some slices for good is in no checkpoint before the program has heard of it: the
// next coordinator would take it for a round that goes on.
TEST_F(SchedulerRounds, NoSnapshotsOfARoundThatAnUnheardErrorBreaksOff) {
  redo_max = 100;
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleRounds(1);
  ASSERT_EQ(Running(*channel).size(), 3u);
  EXPECT_FALSE(Hold().has_value());
  channel->AnswerRun(absl::InvalidArgumentError("no such thing"));
  EXPECT_TRUE(ready.empty()) << "the other two may end it well";
  channel->AnswerRun(absl::OkStatus());
  channel->AnswerRun(absl::InvalidArgumentError("no such thing"));
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(ready[0])) << ready[0];
  scheduler->EndSnapshots();
  EXPECT_TRUE(absl::IsFailedPrecondition(Hold().value_or(absl::OkStatus())));
  scheduler->EndSnapshots();
  Join();
  ASSERT_EQ(fences.size(), 1u);
  fences[0].second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(Hold(), absl::OkStatus());
}

// One that pushed and was not heard of is cancelled by an error behind the round: those that are
// left make the round when it has to run again.
TEST_F(SchedulerRounds, ARoundThatAnErrorHasTakenAStepFromRunsAgainWithTheRest) {
  redo_max = 100;
  Make(4);
  const auto before = AddWorker(0);
  ScheduleRounds(1);
  ASSERT_EQ(Running(*before).size(), 3u);
  before->AnswerRun(absl::OkStatus(), /*round_applied=*/true);
  before->AnswerRun(absl::InvalidArgumentError("no such thing"));
  before->AnswerRun(absl::InvalidArgumentError("no such thing"));
  Join();
  EXPECT_EQ(joined.size(), 1u);
  round = {2, 2};
  for (int i = 0; i < 3; ++i) Schedule();
  scheduler->Pause("a ps was lost");
  scheduler->Resume(8);
  const auto after = AddWorker(0, 2);
  after->AnswerPreparations();
  ASSERT_EQ(after->calls.size(), 1u);
  EXPECT_EQ(after->Peek().closure_id(), 1u);
  EXPECT_EQ(after->Peek().aggregate(), 1u);
  after->AnswerRun(absl::OkStatus());
  EXPECT_EQ(after->calls.size(), 3u);
  EXPECT_EQ(after->Peek().aggregate(), 2u);
}

// Its answers would count for nothing.
TEST_F(SchedulerRounds, ADrainLetsARoundThatHasBegunGetAllThatItTakes) {
  Make(1);
  const auto channel = AddWorker(0);
  ScheduleRounds(2);
  ASSERT_THAT(Running(*channel), testing::ElementsAre(1));
  int drained = 0;
  scheduler->Drain([&](const absl::Status&) { ++drained; });
  channel->AnswerRun(absl::OkStatus());
  EXPECT_THAT(Running(*channel), testing::ElementsAre(2));
  EXPECT_EQ(drained, 0);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().done, 2u);
  EXPECT_EQ(drained, 1);
  EXPECT_TRUE(channel->calls.empty()) << "the round has what it takes, and the next has not begun";
}

TEST_F(SchedulerRounds, AnErrorEndsTheRoundAndIsRaisedBehindAFence) {
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleRounds(2);
  Join();
  ASSERT_EQ(Running(*channel).size(), 3u);
  channel->AnswerRun(absl::OkStatus());
  channel->AnswerRun(absl::InvalidArgumentError("no such thing"));
  EXPECT_TRUE(fences.empty()) << "3 is in flight";
  channel->AnswerRun(absl::InvalidArgumentError("no such thing"));
  ASSERT_EQ(fences.size(), 1u) << "slices have kept what 1 pushed";
  EXPECT_EQ(fences[0].first, 7u);
  fences[0].second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(std::string(joined[0].message()), testing::HasSubstr("no such thing"));
  // It is usable again.
  round = {3, 2};
  for (int i = 0; i < 2; ++i) Schedule();
  Join();
  for (int i = 0; i < 2; ++i) channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_TRUE(joined[1].ok());
}

}  // namespace
}  // namespace cohort
