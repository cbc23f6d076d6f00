// Workers of multi_worker_mirrored that are lost and come back. The expectation is the loss curve
// of one_device: no step is left out, and none counts twice, whoever computes it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/conformance/workers_that_are_lost.h"
#include "tests/sim/standstill.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 40;
constexpr int kWorkers = 3;
constexpr uint64_t kSeeds = 16;

class MultiWorkerLoss : public WorkersThatAreLost {
 protected:
  MultiWorkerLoss() : WorkersThatAreLost(kWorkers) {}
};

// No checkpoint, and nobody comes back: the two that are left go on where all three were.
TEST_P(MultiWorkerLoss, TheOthersGoOn) {
  const Trained one = OneDevice(kSteps);
  Connect(CoordinatorOptionsOf(job_));
  Schedule(kSteps);
  After(Delay(30), [&] { cluster_.tasks().Kill(Worker(GetParam())); });
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  ExpectNear(*losses, one.losses);
  cluster_.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(InStep(), kWorkers - 1);
  ExpectSameCopies(Worker(GetParam()));
  EXPECT_EQ(coordinator_->stats().recoveries, 0u) << "nothing is taken back";
}

TEST_P(MultiWorkerLoss, AnotherProcessTakesThePlaceOfTheLostOne) {
  Connect(CoordinatorOptionsOf(job_));
  Schedule(kSteps);
  const TaskId lost = Worker(GetParam());
  const absl::Duration away = Delay(GetParam() % 2 == 0 ? 20 : 3000);
  After(Delay(30), [&, lost, away] {
    cluster_.tasks().Kill(lost);
    After(away, [&, lost] { cluster_.tasks().Start(lost); });
  });
  const auto first = training_->Losses();
  ASSERT_TRUE(first.ok()) << first.status();
  cluster_.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(InStep(), kWorkers);
  ExpectSameCopies();
  Schedule(kSteps);
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  ExpectNear(*losses, OneDevice(2 * kSteps).losses);
  ExpectSameCopies();
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

// kill -9 of one of three: the bounds of the issue, on a clock that has no noise. Nothing is taken
// back, so training costs no step.
TEST_P(MultiWorkerLoss, TheOthersTrainAgainAndAReplacementJoinsWithinSeconds) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  cluster_.sim().RunFor(Delay(20));
  cluster_.tasks().Kill(Worker(GetParam()));
  const absl::Duration again = TrainUntilInStep(kWorkers - 1);
  EXPECT_LT(again, absl::Milliseconds(200)) << "of 5 s that it may take";
  for (int i = 0; i < 20; ++i) TrainUntilInStep(kWorkers - 1);
  cluster_.tasks().Start(Worker(GetParam()));
  const absl::Duration joined = TrainUntilInStep(kWorkers);
  EXPECT_LT(joined, absl::Milliseconds(1500)) << "of 5 s that it may take";
  for (int i = 0; i < 10; ++i) TrainUntilInStep(kWorkers);
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  ExpectNear(*losses, OneDevice(scheduled_).losses);
  ExpectSameCopies();
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

// A worker that only falls silent is lost when its lease is over.
TEST_P(MultiWorkerLoss, TheOthersTrainAgainWhenTheLeaseOfASilentOneIsOver) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  Connect(options);
  TrainUntilInStep(kWorkers);
  cluster_.sim().RunFor(Delay(20));
  for (const std::string& other :
       {HostOf(GetParam() + 1), HostOf(GetParam() + 2), std::string("chief:0")}) {
    cluster_.network().Cut(HostOf(GetParam()), other);
  }
  const absl::Duration again = TrainUntilInStep(kWorkers - 1);
  // The step that it broke has ended on the others by then, unless the call to it broke shortly
  // before: then they wait for its word for an agreement's time.
  EXPECT_LT(again, options.lease + absl::Seconds(1));
  ASSERT_TRUE(training_->Losses().ok());
}

TEST_P(MultiWorkerLoss, AWorkerThatStandsStillForLessThanTheLeaseIsWaitedFor) {
  const Trained undisturbed = TrainJob(job_, {.workers = kWorkers, .steps = kSteps});
  Connect(CoordinatorOptionsOf(job_));
  Schedule(kSteps);
  cluster_.sim().RunFor(Delay(20));
  constexpr absl::Duration kStop = absl::Milliseconds(4500);
  const absl::Time begin = cluster_.sim().Now();
  Standstill standstill(cluster_.sim(), HostOf(GetParam()), kStop);
  cluster_.network().SetWatcher(&standstill);
  const auto losses = training_->Losses();
  cluster_.network().SetWatcher(nullptr);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_GE(cluster_.sim().Now() - begin, kStop);
  EXPECT_LT(cluster_.sim().Now() - begin, kStop + absl::Seconds(1));
  EXPECT_EQ(*losses, undisturbed.losses) << "bit for bit";
  EXPECT_EQ(*training_->Values(), undisturbed.values);
  // The others have not reached it for a while: what they do together is begun anew.
  EXPECT_LE(coordinator_->stats().put_back, 2u);
  EXPECT_EQ(InStep(), kWorkers);
}

// Two that do not reach each other, while the coordinator reaches both: one of them is left out,
// the others train on, and the one is back when that is over.
TEST_P(MultiWorkerLoss, OneOfTwoThatDoNotReachEachOtherIsLeftOut) {
  const ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  Connect(options);
  Schedule(kSteps);
  absl::Time cut;
  After(Delay(30), [&] {
    cut = cluster_.sim().Now();
    cluster_.network().Cut(HostOf(GetParam()), HostOf(GetParam() + 1));
  });
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  ExpectNear(*losses, OneDevice(kSteps).losses);
  EXPECT_LT(cluster_.sim().Now() - cut, options.lease + absl::Seconds(3));
  EXPECT_EQ(InStep(), kWorkers - 1);
  cluster_.network().HealAll();
  EXPECT_LT(TrainUntilInStep(kWorkers), options.lease + absl::Seconds(3));
  ExpectSameCopies();
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

// It is asked for again and again, and in between another one that was lost comes back.
TEST_P(MultiWorkerLoss, AWorkerThatNobodyReachesKeepsNobodyElseOut) {
  Connect(CoordinatorOptionsOf(job_));
  Schedule(2);
  ASSERT_TRUE(training_->Losses().ok());
  for (const uint64_t other : {1, 2}) cluster_.network().Cut(HostOf(0), HostOf(other));
  cluster_.tasks().Kill(Worker(0));
  TrainUntilInStep(2);
  cluster_.tasks().Start(Worker(0));
  cluster_.tasks().Kill(Worker(2));
  TrainUntilInStep(1);
  // Also where a copy for the first is under way, or has failed often.
  cluster_.sim().RunFor(Delay(60'000));
  cluster_.tasks().Start(Worker(2));
  EXPECT_LT(TrainUntilInStep(2), absl::Seconds(5));
}

// One after another, each comes back while or after the next one is lost, as long as one is left.
TEST_P(MultiWorkerLoss, WorkersMayBeLostAgainAndAgain) {
  Connect(CoordinatorOptionsOf(job_));
  Schedule(kSteps);
  for (uint64_t i = 0; i < 4; ++i) {
    const TaskId lost = Worker(GetParam() + i);
    After(absl::Seconds(static_cast<int64_t>(i)) + Delay(40), [&, lost] {
      // Nobody else may be away then.
      if (InStep() < kWorkers) return;
      cluster_.tasks().Kill(lost);
      After(Delay(300), [&, lost] { cluster_.tasks().Start(lost); });
    });
  }
  for (int64_t i = 0; i < 4; ++i) {
    cluster_.sim().RunFor(absl::Seconds(1));
    Schedule(kSteps / 4);
  }
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  cluster_.sim().RunFor(absl::Seconds(10));
  ExpectNear(*losses, OneDevice(2 * kSteps).losses);
  EXPECT_EQ(InStep(), kWorkers);
  ExpectSameCopies();
}

TEST_P(MultiWorkerLoss, WhenAllAreLostTheJobEndsWithAnError) {
  Connect(CoordinatorOptionsOf(job_));
  Schedule(5 * kSteps);
  After(Delay(20), [&] {
    for (uint64_t i = 0; i < kWorkers; ++i) cluster_.tasks().Kill(Worker(i));
  });
  const absl::Status ended = training_->Losses().status();
  EXPECT_EQ(ClassOf(ended), proto::PS_LOST) << ended;
  EXPECT_THAT(ended.message(), HasSubstr("worker:"));
}

// With checkpoints all are put back, and the job ends as it would have, bit for bit.
TEST_P(MultiWorkerLoss, WhenAllAreLostTheJobGoesBackToItsCheckpoint) {
  const Trained undisturbed = TrainJob(job_, {.workers = kWorkers, .steps = kSteps});
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(5);
  Connect(std::move(options));
  Schedule(kSteps);
  After(Delay(20), [&] {
    for (uint64_t i = 0; i < kWorkers; ++i) {
      cluster_.tasks().Kill(Worker(i));
      cluster_.tasks().Start(Worker(i));
    }
  });
  const auto losses = training_->Losses();
  ASSERT_TRUE(losses.ok()) << losses.status();
  cluster_.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(*losses, undisturbed.losses);
  EXPECT_EQ(*training_->Values(), undisturbed.values);
  EXPECT_EQ(InStep(), kWorkers);
  ExpectSameCopies();
  EXPECT_GE(coordinator_->stats().recoveries, 1u);
}

// A checkpoint that is taken while workers come and go is one copy, and restores into all.
TEST_P(MultiWorkerLoss, CheckpointsGoOnWhileWorkersComeAndGo) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(5);
  Connect(std::move(options));
  Schedule(kSteps);
  const TaskId lost = Worker(GetParam());
  After(Delay(30), [&, lost] {
    cluster_.tasks().Kill(lost);
    After(Delay(50), [&, lost] { cluster_.tasks().Start(lost); });
  });
  const auto first = training_->Losses();
  ASSERT_TRUE(first.ok()) << first.status();
  cluster_.sim().RunFor(absl::Seconds(5));
  const Values before = *training_->Values();
  for (uint64_t i = 0; i < kWorkers; ++i) {
    cluster_.tasks().Kill(Worker(i));
    cluster_.tasks().Start(Worker(i));
  }
  cluster_.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(*training_->Values(), before);
  EXPECT_EQ(InStep(), kWorkers);
  ExpectSameCopies();
}

INSTANTIATE_TEST_SUITE_P(Seeds, MultiWorkerLoss, testing::Range<uint64_t>(1, kSeeds + 1));

}  // namespace
}  // namespace cohort
