#pragma once

// A strategy is a planner: a pure function from a model's programs and the cluster's shape to
// a plan. It opens no socket and computes nothing, so it is tested by equality of plans.

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

// The facts about the cluster that a plan depends on: which tasks there are, not where. Task
// indices, ascending; a sparse cluster has holes.
struct ClusterShape {
  std::vector<int> ps = {};
  std::vector<int> workers = {};
  // measured by an earlier run's parameter servers; empty: nothing was measured
  MeasuredLoads loads = {};
  // The devices of each worker, as reported (Strategy::TakesAllDevices); empty: nobody was asked.
  std::vector<std::string> devices = {};
};

// The plan that is sent out: where variables live and what workers run.
struct Plan {
  std::vector<proto::VariableLayout> variables;  // in creation order
  proto::Program train_step;
  proto::Program eval_step;
  proto::Program predict;
  std::vector<PiecePlacement> placement;  // one per piece, in the same order: for people
  Role homes = Role::kPs;                 // the slices'
  bool gangs = false;                     // train steps are gang closures, each of them an update
  std::vector<std::string> notes = {};    // shown to people: what the strategy's options come to
};

// Immutable; thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Errors: those of CheckCluster; INVALID_ARGUMENT for a program that reads or pushes a variable
  // that the model does not have.
  virtual absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                        const ClusterShape& cluster) const = 0;
  // Errors: INVALID_ARGUMENT for a cluster without the tasks that the strategy needs, or with some
  // that it has no use for, naming them and the remedy.
  virtual absl::Status CheckCluster(const ClusterShape& cluster) const = 0;
  // Returns whether the plan depends on ClusterShape.devices: no list says where replicas run,
  // which means all devices of each worker.
  virtual bool TakesAllDevices() const = 0;
  // Returns the number of replicas whose gradients make one update.
  virtual int64_t NumReplicasInSync(const ClusterShape& cluster) const = 0;
};

// Returns where the strategy keeps variables.
inline Role HomesOf(const StrategySpec& spec) {
  return spec.type == kParameterServer ? Role::kPs : Role::kWorker;
}

}  // namespace cohort
