// Pause, Resume and cuts, with workers that the test plays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "coordinator/schedule/scheduler.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

class SchedulerRecovery : public SchedulerTest {
 protected:
  void SetUp() override {
    redo_max = 100;
    Make(2);
  }

  // Another worker process, to which everything must be given again.
  std::shared_ptr<ScriptedChannel> NewWorker() {
    auto channel = AddWorker(0, ++incarnation_);
    channel->AnswerPreparations();
    return channel;
  }

  static std::vector<uint64_t> IdsOf(const ScriptedChannel& channel) {
    std::vector<uint64_t> ids;
    for (const auto& call : channel.calls) {
      if (call.method != ScriptedChannel::kRun) continue;
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      ids.push_back(request.closure_id());
    }
    return ids;
  }

 private:
  uint64_t incarnation_ = 0;
};

using Ids = std::vector<uint64_t>;

TEST_F(SchedulerRecovery, WhatIsNotDurableRunsAgainUnderItsIdAndItsResultStays) {
  const auto channel = NewWorker();
  const auto first = Schedule();
  const auto second = Schedule();
  const auto third = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  ASSERT_TRUE(first->IsReady());
  scheduler->Pause("ps:0 was lost");
  EXPECT_TRUE(joined.empty());
  scheduler->Resume(8);
  const auto again = NewWorker();
  again->AnswerPreparations();
  EXPECT_EQ(IdsOf(*again), (Ids{1, 2}));
  EXPECT_EQ(again->Peek().epoch(), 8u);
  again->AnswerRun(absl::InternalError("never looked at: the first result stays"));
  EXPECT_TRUE(first->result().ok());
  EXPECT_EQ(scheduler->stats().recoveries, 1u);
}

TEST_F(SchedulerRecovery, WhatACommittedCutCoversDoesNotRunAgain) {
  const auto channel = NewWorker();
  for (int i = 0; i < 4; ++i) Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  const Cut cut = scheduler->BeginCut();
  // Done after the cut began: some ps may have taken its snapshot before.
  channel->AnswerRun(absl::OkStatus());
  scheduler->CommitCut(cut);
  scheduler->Pause("");
  scheduler->Resume(8);
  EXPECT_EQ(IdsOf(*NewWorker()), (Ids{2, 3}));
}

TEST_F(SchedulerRecovery, AnswersFromBeforeAPauseAreIgnored) {
  const auto channel = NewWorker();
  const auto value = Schedule();
  channel->AnswerPreparations();
  scheduler->Pause("ps:0 was lost");
  channel->AnswerRun(absl::OkStatus());
  EXPECT_FALSE(value->IsReady());
  scheduler->Resume(8);
  const auto again = NewWorker();
  ASSERT_EQ(IdsOf(*again), (Ids{1}));
  again->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->IsReady());
  EXPECT_EQ(scheduler->stats().done, 1u);
}

TEST_F(SchedulerRecovery, AJoinWaitsForTheResumeAndForWhatRunsAgain) {
  const auto channel = NewWorker();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  scheduler->Pause("ps:0 was lost");
  Join();
  std::vector<absl::Status> stable;
  scheduler->WhenStable([&](absl::Status status) { stable.push_back(status); });
  EXPECT_TRUE(joined.empty());
  scheduler->Resume(8);
  EXPECT_TRUE(joined.empty());
  EXPECT_TRUE(stable.empty());
  const auto again = NewWorker();
  again->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].ok());
  ASSERT_EQ(stable.size(), 1u);
  EXPECT_EQ(scheduler->stats().done, 1u) << "counted once";
  EXPECT_EQ(scheduler->stats().replayed, 1u);
}

// The error of another closure cancels what is queued, but not what was done before a restore: its
// effect would be lost though its result was given.
TEST_F(SchedulerRecovery, AnErrorDoesNotCancelWhatRunsAgain) {
  const auto channel = NewWorker();
  for (int i = 0; i < 3; ++i) Schedule();
  channel->AnswerPreparations();
  for (int i = 0; i < 3; ++i) channel->AnswerRun(absl::OkStatus());
  const auto failing = Schedule();
  scheduler->Pause("");
  scheduler->Resume(8);
  scheduler->RecordError(absl::InternalError("an error"));
  Join();
  const auto again = NewWorker();
  EXPECT_TRUE(joined.empty());
  for (int i = 0; i < 3; ++i) again->AnswerRun(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "an error");
  EXPECT_EQ(scheduler->stats().replayed, 3u);
  ASSERT_TRUE(failing->IsReady());
  EXPECT_TRUE(absl::IsCancelled(failing->result().status()));
}

TEST_F(SchedulerRecovery, AFullLogAsksForACheckpointAndHoldsScheduleBack) {
  redo_max = 2;
  Make(2);
  const auto channel = NewWorker();
  Schedule();
  Schedule();
  EXPECT_EQ(checkpoints_asked, 0);
  Schedule();
  EXPECT_GT(checkpoints_asked, 0);
  EXPECT_EQ(admitted.size(), 2u);
  EXPECT_TRUE(scheduler->IsHeldByRedoLog());
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(admitted.size(), 2u) << "done is not durable";
  scheduler->CommitCut(scheduler->BeginCut());
  EXPECT_EQ(admitted.size(), 3u);
}

TEST_F(SchedulerRecovery, ACheckpointIsAskedForOnceAfterSoManyClosures) {
  checkpoint_every = 2;
  Make(2);
  const auto channel = NewWorker();
  const auto finish = [&](int count) {
    for (int i = 0; i < count; ++i) Schedule();
    channel->AnswerPreparations();
    for (int i = 0; i < count; ++i) channel->AnswerRun(absl::OkStatus());
  };
  finish(1);
  EXPECT_EQ(checkpoints_asked, 0);
  finish(1);
  EXPECT_EQ(checkpoints_asked, 1);
  finish(2);
  EXPECT_EQ(checkpoints_asked, 1) << "the one that was asked for has not begun";
  const Cut cut = scheduler->BeginSnapshots();
  scheduler->EndSnapshots();
  finish(1);
  scheduler->CommitCut(cut);
  EXPECT_EQ(checkpoints_asked, 1) << "one closure is not covered";
  finish(1);
  EXPECT_EQ(checkpoints_asked, 2);
}

TEST_F(SchedulerRecovery, AClosureThatChangesNothingIsDurableWhenItIsDone) {
  auto evaluation = std::make_shared<RegisteredProgram>(*program);
  evaluation->request.clear_program();
  program = evaluation;
  const auto channel = NewWorker();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  scheduler->Pause("");
  scheduler->Resume(8);
  EXPECT_TRUE(IdsOf(*NewWorker()).empty());
}

// The worker that could not reach a ps gets nothing for a moment, in which the ps comes back or is
// declared lost.
TEST_F(SchedulerRecovery, AWorkerThatCannotReachAServerIsHeldAndTheServerIsASuspect) {
  const auto channel = NewWorker();
  Schedule();
  channel->AnswerPreparations();
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role("ps");
  detail.mutable_origin()->set_index(3);
  channel->AnswerRun(WithDetail(absl::UnavailableError("ps:3 cannot be reached"), detail));
  EXPECT_EQ(ps_suspects, std::vector<int>{3});
  EXPECT_TRUE(channel->calls.empty());
  const absl::Time held = sim.Now();
  sim.RunUntil([&] { return !channel->calls.empty(); }, absl::Seconds(10));
  EXPECT_EQ(sim.Now() - held, absl::Milliseconds(250));
  EXPECT_EQ(scheduler->stats().put_back, 1u);
}

// A worker that is cut off may answer its calls never, or late.
TEST_F(SchedulerRecovery, WhatIsInFlightOnALostWorkerIsTakenBackWhenItIsFenced) {
  fences_workers = true;
  Make(2);
  const auto lost = AddWorker(0, /*incarnation=*/41);
  const auto value = Schedule();
  lost->AnswerPreparations();
  const uint64_t session = lost->Peek().session();
  scheduler->WorkerLost(0, absl::UnavailableError("no answer for a lease"));
  const auto other = AddWorker(1);
  ASSERT_EQ(fences.size(), 1u);
  EXPECT_EQ(fences[0].first, session);
  EXPECT_TRUE(other->calls.empty()) << "what it still pushes is not refused yet";
  fences[0].second(absl::OkStatus());
  other->AnswerPreparations();
  EXPECT_EQ(IdsOf(*other), (Ids{1}));
  EXPECT_EQ(other->Peek().attempt(), 2u);
  lost->AnswerRun(absl::InternalError("late"));
  EXPECT_FALSE(value->IsReady());
  other->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
  EXPECT_EQ(scheduler->stats().done, 1u);
}

// A fence of the next epoch that comes after the restore would refuse what runs again.
// It was only cut off: what it is given after its return is not what was fenced.
TEST_F(SchedulerRecovery, ALostWorkerThatReturnsAsTheSameProcessWorksAgain) {
  fences_workers = true;
  Make(2);
  const auto before = AddWorker(0, /*incarnation=*/41);
  Schedule();
  before->AnswerPreparations();
  scheduler->WorkerLost(0, absl::UnavailableError("no answer for a lease"));
  ASSERT_EQ(fences.size(), 1u);
  fences[0].second(absl::OkStatus());
  const auto after = AddWorker(0, /*incarnation=*/41);
  ASSERT_EQ(IdsOf(*after), (Ids{1}));
  EXPECT_NE(after->Peek().session(), fences[0].first);
}

TEST_F(SchedulerRecovery, AnErrorIsRaisedWithoutAFenceWhilePaused) {
  const auto channel = NewWorker();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::UnavailableError("connection reset"));
  scheduler->Pause("ps:0 was lost");
  scheduler->RecordError(absl::InternalError("an error"));
  Join();
  EXPECT_TRUE(fences.empty());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "an error");
}

TEST_F(SchedulerRecovery, AfterCloseEveryCallGetsTheError) {
  const auto channel = NewWorker();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  scheduler->Pause("ps:0 was lost");
  Join();
  scheduler->Close(absl::FailedPreconditionError("another coordinator has taken over"));
  Join();
  ASSERT_EQ(joined.size(), 2u);
  for (const absl::Status& status : joined) {
    EXPECT_EQ(status.message(), "another coordinator has taken over");
  }
  std::vector<absl::Status> stable;
  scheduler->WhenStable([&](absl::Status status) { stable.push_back(status); });
  ASSERT_EQ(stable.size(), 1u);
  EXPECT_FALSE(stable[0].ok());
}

// Whoever waits for a result of a job that was given up hears of it at once.
TEST_F(SchedulerRecovery, CloseEndsWhatIsQueuedAndInFlight) {
  const auto channel = NewWorker();
  const auto in_flight = Schedule();
  const auto also_in_flight = Schedule();
  const auto queued = Schedule();
  Join();
  scheduler->Close(absl::FailedPreconditionError("another coordinator has taken over"));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "another coordinator has taken over");
  for (const auto& value : {in_flight, also_in_flight, queued}) {
    ASSERT_TRUE(value->IsReady());
    EXPECT_EQ(value->result().status().message(), "another coordinator has taken over");
  }
  EXPECT_EQ(scheduler->stats().queued + scheduler->stats().in_flight, 0u);
  channel->AnswerPreparations();  // of a call from before: it is ignored
}

// A snapshot that holds a closure which the checkpoint does not know is poison for the next
// coordinator: it gives that id to other work, and the slice calls it a repeat.
TEST_F(SchedulerRecovery, WhileSnapshotsAreTakenNothingRunsThatWasAdmittedLater) {
  const auto channel = NewWorker();
  Schedule();
  Schedule();
  Schedule();  // waits for a slot
  channel->AnswerPreparations();
  const Cut cut = scheduler->BeginSnapshots();
  EXPECT_EQ(cut.next.value, 4u);
  Schedule();
  Schedule();
  for (int i = 0; i < 3; ++i) channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(channel->calls.empty()) << "4 and 5 wait";
  EXPECT_THAT(scheduler->DescribeWait(), testing::HasSubstr("those from 4 on wait"));
  scheduler->EndSnapshots();
  EXPECT_EQ(IdsOf(*channel), (Ids{4, 5}));
  // A recovery gives the checkpoint up, and with it the wait.
  scheduler->BeginSnapshots();
  Schedule();
  scheduler->Pause("ps:0 was lost");
  scheduler->Resume(8);
  const auto again = NewWorker();
  again->AnswerPreparations();
  while (!again->calls.empty()) again->AnswerRun(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().queued, 0u);
}

// What is recorded with a cut that leaves a closure open must not be the state of a program that
// has seen the closure's end.
TEST_F(SchedulerRecovery, NoJoinEndsWhileTheStateOfACutIsRecorded) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    Make(2);
    joined.clear();
    const auto channel = NewWorker();
    Schedule();
    channel->AnswerPreparations();
    Join();
    scheduler->BeginSnapshots([&](const Cut& cut) {
      EXPECT_EQ(cut.open.size(), 1u);
      channel->AnswerRun(fails ? MakeError(absl::StatusCode::kInternal, "", proto::APPLICATION)
                               : absl::OkStatus());
      EXPECT_TRUE(joined.empty());
    });
    ASSERT_EQ(joined.size(), 1u);
    EXPECT_EQ(joined[0].ok(), !fails) << joined[0];
  }
}

// Whoever says that a closure must not run again hears which one would have had to.
TEST_F(SchedulerRecovery, WhatMustNotRunAgainIsLostByName) {
  replayable = false;
  const auto channel = NewWorker();
  const auto done = Schedule();
  const auto in_flight = Schedule();
  const auto also_in_flight = Schedule();
  const auto never_begun = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  ASSERT_EQ(IdsOf(*channel), (Ids{2, 3}));
  scheduler->Pause("ps:0 was lost");
  EXPECT_EQ(in_flight->result().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(also_in_flight->result().status().code(), absl::StatusCode::kDataLoss);
  scheduler->Resume(8);
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].code(), absl::StatusCode::kDataLoss);
  for (const char* const lost : {"closure 1 is lost", "closure 2 is lost", "closure 3 is lost"}) {
    EXPECT_THAT(std::string(joined[0].message()), testing::HasSubstr(lost));
  }
  EXPECT_TRUE(done->result().ok()) << "its result was given";
  EXPECT_EQ(never_begun->result().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(SchedulerRecovery, WhatMustNotRunAgainIsLostWithItsWorker) {
  replayable = false;
  const auto channel = NewWorker();
  const auto begun = Schedule();
  channel->AnswerPreparations();
  scheduler->WorkerLost(0, absl::UnavailableError("it died"));
  EXPECT_EQ(begun->result().status().code(), absl::StatusCode::kDataLoss);
  Join();
  ASSERT_EQ(fences.size(), 1u);  // before the error is raised, as always
  fences[0].second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(DetailOf(joined[0]).closure_id(), 1u);
}

TEST_F(SchedulerRecovery, TheWatermarkIsTheDurablePoint) {
  const auto channel = NewWorker();
  Schedule();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  Schedule();
  EXPECT_EQ(channel->Peek().watermark(), 1u);
  scheduler->CommitCut(scheduler->BeginCut());
  channel->AnswerRun(absl::OkStatus());
  channel->AnswerRun(absl::OkStatus());
  Schedule();
  EXPECT_EQ(channel->Peek().watermark(), 2u);
}

TEST_F(SchedulerRecovery, IdsThatAreSkippedAreGivenToNobody) {
  const auto channel = NewWorker();
  scheduler->SkipTo(ClosureId{41});
  Schedule();
  channel->AnswerPreparations();
  EXPECT_EQ(channel->Peek().closure_id(), 41u);
}

}  // namespace
}  // namespace cohort
