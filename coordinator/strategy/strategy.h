#pragma once

// A strategy is a planner: a pure function from a model's programs and the cluster's shape to a
// plan. A strategy opens no socket and computes nothing, so it is tested by equality of plans.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/placement.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

// The facts about the cluster that a plan depends on: which tasks there are, not where they run.
// Task indices are ascending and may have gaps.
struct ClusterShape {
  std::vector<int> ps = {};
  std::vector<int> workers = {};
  // Measured by the parameter servers of an earlier run; empty: nothing was measured.
  MeasuredLoads loads = {};
  // The devices of each worker, as the workers reported them (Strategy::TakesAllDevices); empty:
  // the workers were not asked.
  std::vector<std::string> devices = {};
};

// A plan: where variables live, and what workers run.
struct Plan {
  std::vector<proto::VariableLayout> variables;  // layouts of the variables, in creation order
  proto::Program train_step;
  proto::Program eval_step;
  proto::Program predict;
  // The placement of each piece, in the order of the pieces; shown to people.
  std::vector<PiecePlacement> placement;
  Role homes = Role::kPs;  // the role of the tasks that hold slices
  bool gangs = false;      // train steps are gang closures, and each gang is one update
  std::vector<std::string> notes = {};  // for people: what the strategy's options amount to
};

// Immutable; thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Makes a plan. Errors: those of CheckCluster; INVALID_ARGUMENT for a program that reads or
  // pushes a variable that the model does not have.
  virtual absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                        const ClusterShape& cluster) const = 0;
  // Checks the cluster. Errors: INVALID_ARGUMENT for a cluster without the tasks that the strategy
  // needs, or with tasks that the strategy does not use, naming the tasks and the remedy.
  virtual absl::Status CheckCluster(const ClusterShape& cluster) const = 0;
  // Returns whether the plan depends on ClusterShape.devices. It does if the job lists no devices,
  // which means that replicas run on all devices of each worker.
  virtual bool TakesAllDevices() const = 0;
  // Returns the number of replicas whose gradients make one update.
  virtual int64_t NumReplicasInSync(const ClusterShape& cluster) const = 0;
};

// Returns the role of the tasks in which the strategy keeps variables.
inline Role HomesOf(const StrategySpec& spec) {
  return spec.type == kParameterServer ? Role::kPs : Role::kWorker;
}

}  // namespace cohort
