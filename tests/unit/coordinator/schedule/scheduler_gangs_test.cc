// Gang closures: sent one behind the other, in the order of their ids, whatever becomes of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;

class SchedulerGangs : public SchedulerTest {
 protected:
  void ScheduleGangs(int count) {
    gang = true;
    for (int i = 0; i < count; ++i) {
      ++round.number;
      Schedule();
    }
  }
  // Of so many two, which were sent to the one worker.
  std::shared_ptr<ScriptedChannel> SendTwoOf(int count) {
    Make(2);
    auto channel = AddWorker(0);
    ScheduleGangs(count);
    EXPECT_THAT(Sent(*channel), ElementsAre("1: 1.1", "2: 1.2"));
    return channel;
  }
  // "closure: generation.sequence", as the worker has been sent them.
  std::vector<std::string> Sent(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    std::vector<std::string> sent;
    for (const auto& call : channel.calls) {
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      EXPECT_EQ(request.round(), request.closure_id());
      sent.push_back(absl::StrCat(request.closure_id(), ": ", request.gang().generation(), ".",
                                  request.gang().sequence()));
    }
    return sent;
  }
  std::optional<absl::Status> Hold() {
    return scheduler->HoldRounds([this](absl::Status status) { ready.push_back(status); });
  }
  static absl::Status Transient() {
    return MakeError(absl::StatusCode::kAborted, "behind one that failed", proto::TRANSIENT);
  }
  std::vector<absl::Status> ready;  // what Hold had to wait for
};

TEST_F(SchedulerGangs, TheNextOnesAreSentWhileOneRuns) {
  Make(2);
  const auto channel = AddWorker(0);
  ScheduleGangs(4);
  Join();
  EXPECT_THAT(Sent(*channel), ElementsAre("1: 1.1", "2: 1.2"));
  channel->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u);
  EXPECT_THAT(Sent(*channel), ElementsAre("2: 1.2", "3: 1.3"));
  for (int i = 0; i < 3; ++i) channel->AnswerRun(absl::OkStatus(), true);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].ok());
}

// Answers may come in any order, or not: a checkpoint would have what it says is open.
TEST_F(SchedulerGangs, NoCheckpointIsTakenWhileAnOlderStepIsNotKnown) {
  Make(2);
  const auto channel = AddWorker(0);
  ScheduleGangs(2);
  ASSERT_EQ(Sent(*channel).size(), 2u);
  ScriptedChannel::OpenCall first = std::move(channel->calls.front());
  channel->calls.pop_front();
  channel->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u);
  EXPECT_FALSE(Hold().has_value()) << "the variables have the first step as well";
  channel->calls.push_front(std::move(first));
  EXPECT_TRUE(ready.empty());
  channel->AnswerRun(absl::OkStatus(), true);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_TRUE(ready[0].ok());
}

// One that changes nothing has the number of the next one's round. It holds checkpoints by itself:
// it would run again behind what the checkpoint has.
TEST_F(SchedulerGangs, ACheckpointWaitsForOneThatChangesNothing) {
  Make(2);
  auto update = std::exchange(program, [] {
    auto reads = std::make_shared<RegisteredProgram>();
    reads->id = "p2";
    return reads;
  }());
  const auto channel = AddWorker(0);
  gang = true;
  round.number = 1;
  Schedule();
  program = std::move(update);
  Schedule();
  channel->AnswerPreparations();
  ScriptedChannel::OpenCall reads = std::move(channel->calls.front());
  channel->calls.pop_front();
  channel->AnswerPreparations();
  ASSERT_EQ(channel->calls.size(), 1u);
  EXPECT_EQ(channel->Peek().round(), 1u);
  channel->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u);
  EXPECT_FALSE(Hold().has_value());
  EXPECT_TRUE(ready.empty());
  Schedule();
  EXPECT_TRUE(channel->calls.empty()) << "of the same round, and not begun";
  channel->calls.push_front(std::move(reads));
  channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_TRUE(ready[0].ok());
}

TEST_F(SchedulerGangs, WhenOneFailsAllAreAwaitedBeforeTheyAreSentAgain) {
  Make(3);
  const auto channel = AddWorker(0);
  ScheduleGangs(5);
  EXPECT_THAT(Sent(*channel), ElementsAre("1: 1.1", "2: 1.2", "3: 1.3"));
  channel->AnswerRun(Transient());  // 1 comes back
  EXPECT_THAT(Sent(*channel), ElementsAre("2: 1.2", "3: 1.3")) << "1 and 4 wait";
  channel->AnswerRun(Transient());
  EXPECT_THAT(Sent(*channel), ElementsAre("3: 1.3"));
  channel->AnswerRun(Transient());
  EXPECT_THAT(Sent(*channel), ElementsAre("1: 2.1", "2: 2.2", "3: 2.3"));
}

TEST_F(SchedulerGangs, AnotherProcessGetsAGenerationOfItsOwn) {
  const auto first = SendTwoOf(3);
  scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  const auto second = AddWorker(0, 2);
  EXPECT_THAT(Sent(*second), ElementsAre("1: 2.1", "2: 2.2"));
}

TEST_F(SchedulerGangs, ACheckpointWaitsForThoseThatWereSent) {
  redo_max = 100;
  const auto channel = SendTwoOf(4);
  EXPECT_FALSE(Hold().has_value());
  channel->AnswerRun(absl::OkStatus(), true);
  EXPECT_THAT(Sent(*channel), ElementsAre("2: 1.2")) << "3 would be in some slices";
  EXPECT_TRUE(ready.empty());
  channel->AnswerRun(absl::OkStatus(), true);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_TRUE(ready[0].ok()) << ready[0];
  const Cut cut = scheduler->BeginSnapshots();
  EXPECT_EQ(cut.covered.size(), 2u);
  scheduler->EndSnapshots();
  EXPECT_THAT(Sent(*channel), ElementsAre("3: 1.3", "4: 1.4"));
}

TEST_F(SchedulerGangs, ThoseThatComeBackWhileACheckpointWaitsAreSentAgain) {
  redo_max = 100;
  const auto channel = SendTwoOf(4);
  EXPECT_FALSE(Hold().has_value());
  channel->AnswerRun(Transient());
  channel->AnswerRun(Transient());
  EXPECT_THAT(Sent(*channel), ElementsAre("1: 2.1", "2: 2.2"));
  channel->AnswerRun(absl::OkStatus(), true);
  channel->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(ready.size(), 1u);
}

TEST_F(SchedulerGangs, AnErrorEndsWhatIsBehindIt) {
  const auto channel = SendTwoOf(4);
  Join();
  channel->AnswerRun(MakeError(absl::StatusCode::kInvalidArgument, "bad data", proto::APPLICATION));
  channel->AnswerRun(Transient());
  EXPECT_TRUE(Sent(*channel).empty());
  for (auto& fence : fences) fence.second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(joined[0].message(), testing::HasSubstr("bad data"));
  fences.clear();
  ScheduleGangs(1);
  EXPECT_THAT(Sent(*channel), ElementsAre("5: 2.1"));
}

TEST_F(SchedulerGangs, WhatIsPutBackRunsAgainInOrder) {
  redo_max = 100;
  const auto channel = SendTwoOf(3);
  channel->AnswerRun(absl::OkStatus(), true);
  scheduler->Pause("a restore");
  scheduler->Resume(8);
  const auto again = AddWorker(0, 2);
  EXPECT_THAT(Sent(*again), ElementsAre("1: 2.1", "2: 2.2")) << "1 was not durable";
}

// A process that held the variables is lost with them: what was in flight there counts as lost with
// it, though everything is put back.
TEST_F(SchedulerGangs, AClosureThatEndsWithItsHomeThreeTimesIsQuarantined) {
  redo_max = 100;
  fences_workers = true;  // a fence that nobody answers: its home is gone
  Make(1, 100, 10);
  ScheduleGangs(1);
  Join();
  for (uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    const auto channel = AddWorker(0, incarnation);
    ASSERT_EQ(Sent(*channel).size(), 1u);
    scheduler->WorkerLost(0, absl::UnavailableError("gone"));
    scheduler->Pause("worker:0 was lost");
    scheduler->Resume(7 + incarnation);
  }
  for (auto& fence : fences) fence.second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(joined[0].message(), testing::HasSubstr("is quarantined"));
}

}  // namespace
}  // namespace cohort
