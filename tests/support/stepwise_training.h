#pragma once

// A model that is trained step by step under its job's strategy, with the loss of each step. The
// data are synthetic digits in batches of fit.batch_size, in order, again and again.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// A perceptron with dropout; `overrides` as of --set.
JobSpec PerceptronJob(const std::vector<std::string>& overrides);

// What the job's strategy asks of a coordinator.
ClusterCoordinator::Options CoordinatorOptionsOf(const JobSpec& job);

// Thread-compatible; blocks on the coordinator's waiter.
class StepwiseTraining {
 public:
  StepwiseTraining(ClusterCoordinator& coordinator, JobSpec job, int64_t examples);

  // Makes variables, programs and data; takes up what an earlier coordinator left.
  absl::Status Begin();
  // Schedules one step more; its loss is known when it is done.
  absl::Status Schedule();
  // So many steps, to their end. The mean loss of each.
  absl::StatusOr<std::vector<double>> Run(int64_t steps);
  // Of all steps that were scheduled, when they are done.
  absl::StatusOr<std::vector<double>> Losses();
  // Another program of the plan, on the first batch.
  absl::StatusOr<FetchedTensors> RunOnce(const proto::Program& program);
  // The value of each variable.
  absl::StatusOr<std::map<std::string, std::vector<float>>> Values();
  // As one of the workers has them that all have a copy.
  absl::StatusOr<std::map<std::string, std::vector<float>>> CopyOf(uint32_t home);

  const Plan& plan() const { return plan_; }

 private:
  absl::StatusOr<std::map<std::string, std::vector<float>>> ValuesIn(
      absl::Span<const proto::VariableLayout> layouts);

  ClusterCoordinator& coordinator_;
  const JobSpec job_;
  const int64_t examples_;
  Plan plan_;
  ProgramHandle program_;
  DatasetHandle data_;
  int64_t step_ = 0;
  std::vector<RemoteValue> results_;
};

}  // namespace cohort
