#include "coordinator/strategy/parameter_server_strategy.h"

#include <utility>
#include <variant>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/plan_parts.h"

namespace cohort {
namespace {

// Sets how the program compresses pulls and pushes. Does nothing if the job asks for no
// compression.
absl::Status Compress(const CompressionSpec& spec, proto::Program& program) {
  if (spec == CompressionSpec()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DType pull, DTypeFromName(spec.pull_dtype));
  ASSIGN_OR_RETURN(const DType push, DTypeFromName(spec.push_dtype));
  proto::Compression& compression = *program.mutable_compression();
  compression.set_pull_dtype(static_cast<int32_t>(pull));
  compression.set_push_dtype(static_cast<int32_t>(push));
  if (spec.top_k < 1) compression.set_top_k(spec.top_k);
  return absl::OkStatus();
}

// Returns the number of replicas that together make one step. Without rounds, each step has a
// single replica, which exchanges values with no other.
int64_t ReplicasInAStep(const ConsistencySpec& consistency) {
  const auto* rounds = std::get_if<SynchronousSpec>(&consistency);
  return rounds == nullptr ? 1 : rounds->aggregate + rounds->backup_steps;
}

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner,
                                                 PlacementPolicy policy,
                                                 CompressionSpec compression,
                                                 ConsistencySpec consistency)
    : partitioner_(std::move(partitioner)),
      policy_(policy),
      compression_(std::move(compression)),
      consistency_(std::move(consistency)) {}

absl::Status ParameterServerStrategy::CheckCluster(const ClusterShape& cluster) const {
  if (cluster.ps.empty()) {
    return absl::InvalidArgumentError(
        "the cluster has no ps: strategy 'parameter_server' needs at least one ps in the cluster; "
        "add cluster.ps to TF_CONFIG or use --local ps=1,worker=1, or set strategy.type to "
        "mirrored, which trains in one worker");
  }
  if (cluster.workers.empty()) {
    return absl::InvalidArgumentError(
        "the cluster has no worker: strategy 'parameter_server' needs at least one worker in the "
        "cluster; add cluster.worker to TF_CONFIG or use --local ps=1,worker=1");
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> ParameterServerStrategy::MakePlan(const ModelPrograms& model,
                                                       const ClusterShape& cluster) const {
  RETURN_IF_ERROR(CheckCluster(cluster));
  RETURN_IF_ERROR(CheckPrograms(model));
  RETURN_IF_ERROR(CheckExchanges(model, kParameterServer, ReplicasInAStep(consistency_)));
  std::shared_ptr<const Partitioner> partitioner = partitioner_;
  // A policy that looks at sizes can share out the bytes only if large variables are cut into
  // pieces.
  if (partitioner == nullptr && policy_ != PlacementPolicy::kRoundRobin) {
    MinSizePartitionerSpec spec;
    spec.max_shards = static_cast<int64_t>(cluster.ps.size());
    ASSIGN_OR_RETURN(partitioner, MakePartitioner(spec));
  }
  Plan plan;
  VariableCreator creator(cluster.ps, partitioner);
  ASSIGN_OR_RETURN(plan.variables, LayOutVariables(model, creator, /*replicas=*/0));
  // The creator has placed each piece without knowing the pieces that follow. The policy now places
  // all of them again.
  plan.placement =
      PlacePieces({cluster.ps, policy_, cluster.loads}, absl::MakeSpan(plan.variables));
  if (partitioner != nullptr) ExplainWholes(plan);
  CutPieces(plan);
  plan.train_step = model.train_step;
  // Only the train step is compressed. Evaluation and prediction read the exact values.
  RETURN_IF_ERROR(Compress(compression_, plan.train_step));
  plan.eval_step = model.eval_step;
  plan.predict = model.predict;
  return plan;
}

int64_t ParameterServerStrategy::NumReplicasInSync(const ClusterShape&) const { return 1; }

}  // namespace cohort
