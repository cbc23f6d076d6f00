// The loss of parameter servers and of the coordinator, in simulated time: every increment counts
// once, whatever dies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/match.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/sim/counter_job.h"
#include "tests/support/counter.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

CounterJob Job(int increments) {
  CounterJob job;
  job.increments = increments;
  job.recovery = true;
  return job;
}

void ExpectEveryIncrementOnce(SimCluster& cluster, const CounterJob& job) {
  const auto value = RunCounterJob(cluster, job);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, static_cast<float>(job.increments));
}

// A job that saves recovery checkpoints after a number of closures, not after a time.
class RecoveryByClosures {
 public:
  RecoveryByClosures(SimCluster& cluster, size_t closures) {
    ClusterCoordinator::Options options;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Hours(1);
    options.recovery_interval_closures = closures;
    auto connected = cluster.Connect(std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
    counter_ = *MakeCounter(*coordinator_);
    EXPECT_TRUE(coordinator_->ResumeState().ok());
  }

  void Increment(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(coordinator_->Schedule(counter_->increment, {}).ok());
    }
    EXPECT_TRUE(coordinator_->Join().ok());
  }
  ClusterCoordinator& coordinator() { return *coordinator_; }

 private:
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<Counter> counter_;
};

TEST(RecoverySim, ALostParameterServerIsPutBackAndTheJobGoesOn) {
  SimCluster cluster(1, 2, 3);
  CounterJob job = Job(2000);
  job.ps_kills = 1;
  job.within = absl::Milliseconds(50);
  ExpectEveryIncrementOnce(cluster, job);
}

TEST(RecoverySim, BeforeTheFirstCheckpointTheStartIsPutBack) {
  SimCluster cluster(2, 2, 3);
  CounterJob job = Job(500);
  job.ps_kills = 2;
  job.recovery_interval = absl::Hours(1);
  ExpectEveryIncrementOnce(cluster, job);
}

TEST(RecoverySim, ARestartedCoordinatorGoesOnFromItsLastCheckpoint) {
  SimCluster cluster(3, 2, 3);
  CounterJob job = Job(2000);
  job.coordinator_kills = 3;
  ExpectEveryIncrementOnce(cluster, job);
}

TEST(RecoverySim, AFullRedoLogWaitsForACheckpoint) {
  SimCluster cluster(4, 2, 3);
  CounterJob job = Job(300);
  job.redo_max = 16;
  job.recovery_interval = absl::Hours(1);
  ExpectEveryIncrementOnce(cluster, job);
}

TEST(RecoverySim, CheckpointsComeAfterSoManyClosuresWithoutWaitingForTheTime) {
  SimCluster cluster(7, 2, 3);
  RecoveryByClosures job(cluster, 25);
  job.Increment(200);
  const uint64_t checkpoints = job.coordinator().stats().checkpoints;
  EXPECT_GE(checkpoints, 2u);
  EXPECT_LE(checkpoints, 8u);
}

// Keeps calls of one method to one host on their way for a while.
class SlowCalls final : public SimWatcher {
 public:
  SlowCalls(std::string method, std::string to) : method_(std::move(method)), to_(std::move(to)) {}
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    if (absl::EndsWith(message.method, method_) && message.to == to_) {
      fate.delay = absl::Seconds(3);
      begun.Notify();
    }
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

  Event begun;

 private:
  const std::string method_;
  const std::string to_;
};

// A server would write its shard after the coordinator has removed all others.
TEST(RecoverySim, NothingOfASaveStaysBehindTheEndOfTheJob) {
  SimCluster cluster(8, 2, 1);
  RecoveryByClosures job(cluster, 10);
  SlowCalls slow("/WriteShard", "ps:1");
  cluster.network().SetWatcher(&slow);
  job.Increment(15);
  ASSERT_TRUE(cluster.waiter().Wait(slow.begun, absl::Seconds(10)));
  EXPECT_TRUE(job.coordinator().ForgetState().ok());
  cluster.sim().RunFor(absl::Seconds(10));
  cluster.network().SetWatcher(nullptr);
  const auto left = cluster.FilesOf("chief:0").List("/recovery");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(*left, testing::IsEmpty());
}

// An evaluation reads the variables behind the Join of the training. A server that is lost while it
// does so is put back to a checkpoint, and the steps since then run again: none of its closures may
// read the variables before all of these have.
TEST(RecoverySim, WhatIsReadBehindAJoinHasEverythingBeforeIt) {
  for (uint64_t seed = 20; seed < 30; ++seed) {
    SimCluster cluster(seed, 2, 3);
    RecoveryByClosures job(cluster, 1000);
    job.Increment(60);
    const auto read = job.coordinator().Register(ReadProgram("counter"));
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<RemoteValue> values;
    for (int i = 0; i < 40; ++i) {
      const auto value = job.coordinator().Schedule(*read, {});
      ASSERT_TRUE(value.ok()) << value.status();
      values.push_back(*value);
      if (i != 20) continue;
      cluster.tasks().Kill({Role::kPs, static_cast<int>(seed % 2)});
      cluster.tasks().Start({Role::kPs, static_cast<int>(seed % 2)});
    }
    ASSERT_TRUE(job.coordinator().Join().ok());
    EXPECT_GE(job.coordinator().stats().recoveries, 1u);
    for (const RemoteValue& value : values) {
      const auto fetched = job.coordinator().Fetch(value);
      ASSERT_TRUE(fetched.ok()) << fetched.status();
      EXPECT_EQ(fetched->at(0).span<float>()[0], 60) << "seed " << seed;
    }
  }
}

// The parameter server does not come back: whatever waits for it ends with the abort, at once.
TEST(RecoverySim, AnAbortedJobWaitsForNobody) {
  SimCluster cluster(6, 2, 1);
  ClusterCoordinator::Options options;
  options.recovery_directory = "/recovery";
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto counter = MakeCounter(**coordinator);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE((*coordinator)->ResumeState().ok());
  cluster.tasks().Kill({Role::kPs, 1});
  cluster.sim().RunFor(absl::Seconds(20));
  absl::Time aborted;
  cluster.sim().CallAt(cluster.sim().Now() + absl::Seconds(1), [&] {
    aborted = cluster.sim().Now();
    (*coordinator)->Abort(absl::CancelledError("enough"));
  });
  EXPECT_TRUE(absl::IsCancelled((*coordinator)->Read(counter->variable).status()));
  EXPECT_EQ(cluster.sim().Now(), aborted);
  EXPECT_TRUE(absl::IsCancelled((*coordinator)->Join()));
  EXPECT_EQ(cluster.sim().Now(), aborted);
}

// A recovery that waits for the tasks keeps the cluster, which keeps what waits.
TEST(RecoverySim, WhatWaitsForTheClusterEndsWithTheCoordinator) {
  SimCluster cluster(7, 1, 1);
  auto coordinator = cluster.Connect({});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  std::shared_ptr<Cluster> members = (*coordinator)->parts().cluster;
  members->WhenReady(/*min_workers=*/2, [members](const absl::Status&) { ADD_FAILURE(); });
  const std::weak_ptr<Cluster> left = members;
  members.reset();
  coordinator->reset();
  cluster.sim().RunFor(absl::Minutes(1));
  EXPECT_TRUE(left.expired());
}

// A million increments while one message in twenty is lost, one in twenty comes twice, and twenty
// processes of all three roles are killed.
TEST(RecoverySim, AMillionIncrementsCountOnce) {
#ifdef COHORT_SANITIZED
  GTEST_SKIP() << "takes a minute without a sanitizer; the other tests run the same code";
#endif
  SimCluster cluster(5, 2, 4);
  CounterJob job = Job(1000000);
  job.kills = 8;
  job.ps_kills = 6;
  job.coordinator_kills = 6;
  job.within = absl::Seconds(30);
  job.recovery_interval = absl::Seconds(1);
  job.closures_in_flight = 32;
  job.closure_timeout = absl::Milliseconds(200);  // what is lost is noticed so late
  job.faults.lose_request = 0.025;
  job.faults.lose_response = 0.025;
  job.faults.duplicate_request = 0.05;
  ExpectEveryIncrementOnce(cluster, job);
}

// Everything at once. Replay one seed with --gtest_filter and the seed that it prints.
TEST(RecoverySim, CountsEveryIncrementOnceWhateverDies) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimCluster cluster(seed, 2, 3);
    CounterJob job = Job(200);
    job.kills = 3;
    job.ps_kills = 3;
    job.coordinator_kills = 2;
    job.within = absl::Seconds(3);
    job.redo_max = seed % 3 == 0 ? 32 : 65536;
    job.faults.lose_request = 0.01;
    job.faults.lose_response = 0.01;
    job.faults.duplicate_request = 0.05;
    const auto value = RunCounterJob(cluster, job);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, 200.0f);
  }
}

}  // namespace
}  // namespace cohort
