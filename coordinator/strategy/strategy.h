#pragma once

// A strategy is a planner: a pure function from a model's programs and the shape of the cluster to
// a plan. It opens no socket and computes no values, so tests compare plans.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/strategy/placement.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

struct ModelPrograms;  // coordinator/model/model_programs.h

// The facts about the cluster that a plan depends on: which tasks there are, but not where they
// run. Task indices are ascending and may have gaps.
struct ClusterShape {
  std::vector<int> ps = {};
  std::vector<int> workers = {};
  // The bytes that the parameter servers of an earlier run moved. Empty if nothing was measured.
  MeasuredLoads loads = {};
  // The devices of each worker, as the workers have reported them (Strategy::TakesAllDevices).
  // Empty if the workers were not asked.
  std::vector<std::string> devices = {};
};

// A plan of a strategy: where variables live, and which programs workers run.
struct Plan {
  std::vector<proto::VariableLayout> variables;  // layouts of the variables, in creation order
  proto::Program train_step;
  proto::Program eval_step;
  proto::Program predict;
  // For people: where each piece lies and why, in the order of the pieces.
  std::vector<PiecePlacement> placement;
  Role homes = Role::kPs;               // the role of the tasks that keep variables
  bool gangs = false;                   // if true, each train step is a gang and makes one update
  std::vector<std::string> notes = {};  // remarks on the plan, for people
};

// The interface that all strategies implement. Immutable. Thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Makes a plan. Errors: those of CheckCluster; INVALID_ARGUMENT for a program that reads or
  // updates a variable that the model does not have.
  virtual absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                        const ClusterShape& cluster) const = 0;
  // Checks that the cluster has the tasks that the strategy needs, and no others. Errors:
  // INVALID_ARGUMENT naming the tasks that are missing or not used, and the remedy.
  virtual absl::Status CheckCluster(const ClusterShape& cluster) const = 0;
  // Returns whether plans depend on ClusterShape.devices. This is so if the job lists no devices:
  // replicas then run on all devices of each worker.
  virtual bool TakesAllDevices() const = 0;
  // Returns the number of replicas whose gradients are joined in one update.
  virtual int64_t NumReplicasInSync(const ClusterShape& cluster) const = 0;
};

// Returns the role of the tasks in which this type of strategy keeps variables.
inline Role HomesOf(const StrategySpec& spec) {
  return spec.type == kParameterServer ? Role::kPs : Role::kWorker;
}

}  // namespace cohort
