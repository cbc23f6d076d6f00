#pragma once

// A job of multi_worker_mirrored in a simulated cluster, of which workers are killed, cut off and
// started anew. The seed is the test's parameter.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/job/job_spec.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {

// Lives on the world's thread.
class WorkersThatAreLost : public testing::TestWithParam<uint64_t> {
 protected:
  explicit WorkersThatAreLost(int workers) : workers_(workers), cluster_(GetParam(), 0, workers) {}
  // All workers may have been killed in the middle of a sum.
  void TearDown() override {
    training_.reset();
    coordinator_.reset();
    cluster_.End();
  }
  void Connect(ClusterCoordinator::Options options) {
    auto connected = cluster_.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
    training_.emplace(*coordinator_, job_, kExamples);
    ASSERT_TRUE(training_->Begin().ok());
  }
  void Schedule(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) ASSERT_TRUE(training_->Schedule().ok());
  }
  void After(absl::Duration delay, std::function<void()> action) {
    cluster_.sim().CallAt(cluster_.sim().Now() + delay, std::move(action));
  }
  absl::Duration Delay(int64_t milliseconds_max) {
    return absl::Microseconds(
        cluster_.sim().rng().Below(static_cast<uint64_t>(milliseconds_max) * 1000));
  }
  // Every other seed meets inside its steps, too: a worker may be lost while the others' replicas
  // wait for its own.
  static JobSpec JobOf(const std::string& type) {
    std::vector<std::string> overrides = {absl::StrCat("strategy.type=", type)};
    if (GetParam() % 2 == 0) overrides.push_back(WithStatistics(true));
    return PerceptronJob(overrides);
  }
  static Trained OneDevice(int64_t steps) {
    return TrainJob(JobOf("one_device"), {.examples = kExamples, .steps = steps});
  }
  // Modulo the number of workers.
  TaskId Worker(uint64_t index) const {
    return {Role::kWorker, static_cast<int>(index % static_cast<uint64_t>(workers_))};
  }
  int InStep() const { return coordinator_->parts().cluster->num_ps(); }
  // Trains until a step is done on so many workers, with a step or two scheduled all the time. How
  // long that takes, by the simulated clock.
  absl::Duration TrainUntilInStep(int workers) {
    const absl::Time begin = cluster_.sim().Now();
    const absl::Time end = begin + absl::Minutes(1);
    bool trained = false;
    while (!trained && cluster_.sim().Now() < end) {
      const bool together = InStep() == workers;
      const uint64_t done = coordinator_->stats().done;
      EXPECT_TRUE(training_->Schedule().ok());
      ++scheduled_;
      cluster_.sim().RunUntil([&] { return coordinator_->stats().done > done; },
                              absl::Milliseconds(100));
      trained = together && InStep() == workers && coordinator_->stats().done > done;
    }
    EXPECT_TRUE(trained);
    return cluster_.sim().Now() - begin;
  }
  std::string HostOf(uint64_t index) const { return Worker(index).ToString(); }

  // Sums of as many workers as were there are rounded in another order.
  static void ExpectNear(const std::vector<double>& losses, const std::vector<double>& wanted) {
    ASSERT_EQ(losses.size(), wanted.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], wanted[i], 1e-3) << "step " << i;
    }
  }
  void ExpectSameCopies(std::optional<TaskId> but = std::nullopt) {
    const auto values = training_->Values();
    ASSERT_TRUE(values.ok()) << values.status();
    for (int i = 0; i < workers_; ++i) {
      if (but == Worker(static_cast<uint64_t>(i))) continue;
      const auto copy = training_->CopyOf(static_cast<uint32_t>(i));
      ASSERT_TRUE(copy.ok()) << copy.status();
      EXPECT_EQ(*copy, *values) << "copy " << i;
    }
  }

  static constexpr int64_t kExamples = 99;  // batches of 32, 32, 32 and 3

  const int workers_;
  int64_t scheduled_ = 0;  // by TrainUntilInStep
  const JobSpec job_ = JobOf(kMultiWorkerMirrored);
  SimCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<StepwiseTraining> training_;
};

}  // namespace cohort
