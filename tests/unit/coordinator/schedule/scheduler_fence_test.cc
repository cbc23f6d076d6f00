// Fences that are lost on their way, or asked for while snapshots are taken.

#include <gtest/gtest.h>

#include "coordinator/schedule/scheduler.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

class SchedulerFence : public SchedulerTest {
 protected:
  void SetUp() override {
    redo_max = 100;
    Make(2);
  }
};

// The watermark of the fence in a slice would say of what the cut has open that it has ended.
TEST_F(SchedulerFence, NothingIsFencedForAnErrorWhileSnapshotsAreTaken) {
  const auto worker = AddWorker(0);
  const auto value = Schedule();
  worker->AnswerPreparations();
  scheduler->BeginSnapshots();
  worker->AnswerRun(absl::UnavailableError("connection reset"));
  scheduler->RecordError(absl::InternalError("an error"));
  Join();
  EXPECT_TRUE(absl::IsCancelled(value->result().status()));
  EXPECT_TRUE(fences.empty());
  scheduler->EndSnapshots();
  ASSERT_EQ(fences.size(), 1u);
  EXPECT_TRUE(joined.empty());
  fences[0].second(absl::OkStatus());
  EXPECT_EQ(joined.size(), 1u);
}

TEST_F(SchedulerFence, WhileSnapshotsAreTakenNoPushIsAboveTheWatermarkOfTheirCut) {
  Make(1);
  const auto worker = AddWorker(0);
  for (int i = 0; i < 3; ++i) Schedule();
  worker->AnswerPreparations();
  scheduler->BeginFetch();  // an error stops nothing
  scheduler->BeginSnapshots();
  worker->AnswerRun(absl::InternalError("fails"));
  EXPECT_EQ(worker->Peek().watermark(), 1u) << "the cut has closure 1 open";
  scheduler->EndSnapshots();
  worker->AnswerRun(absl::InternalError("fails"));
  EXPECT_EQ(worker->Peek().watermark(), 3u);
}

// One lost message does not mean that the ps is lost, and with it what a late push could change.
TEST_F(SchedulerFence, AFenceThatIsNotAnsweredIsRepeated) {
  fences_workers = true;
  Make(2);
  const auto lost = AddWorker(0);
  Schedule();
  lost->AnswerPreparations();
  const auto other = AddWorker(1);
  scheduler->WorkerLost(0, absl::UnavailableError("no answer for a lease"));
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(fences.size(), i + 1);
    fences[i].second(absl::DeadlineExceededError("no answer"));
    sim.RunFor(absl::Seconds(1));
    EXPECT_TRUE(other->calls.empty());
  }
  ASSERT_EQ(fences.size(), 3u);
  EXPECT_EQ(fences[2].first, fences[0].first);
  fences[2].second(absl::DeadlineExceededError("no answer"));
  other->AnswerPreparations();
  EXPECT_EQ(other->calls.size(), 1u) << "it ends some time";
}

}  // namespace
}  // namespace cohort
