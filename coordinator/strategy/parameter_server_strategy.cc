#include "coordinator/strategy/parameter_server_strategy.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {
namespace {

absl::Status CheckVariables(const proto::Program& program, const std::set<std::string>& known) {
  const auto check = [&](const std::string& variable) {
    if (known.contains(variable)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("program '", program.name(), "' uses variable '",
                                                   variable, "', which the model does not have"));
  };
  for (const proto::InputBinding& input : program.inputs()) {
    if (input.source_case() == proto::InputBinding::kVariable) {
      RETURN_IF_ERROR(check(input.variable()));
    }
  }
  for (const proto::OutputBinding& output : program.outputs()) {
    if (output.sink_case() == proto::OutputBinding::kPush) RETURN_IF_ERROR(check(output.push()));
    if (output.sink_case() == proto::OutputBinding::kAssign) {
      RETURN_IF_ERROR(check(output.assign()));
    }
  }
  return absl::OkStatus();
}

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

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner,
                                                 PlacementPolicy policy,
                                                 CompressionSpec compression)
    : partitioner_(std::move(partitioner)),
      policy_(policy),
      compression_(std::move(compression)) {}

absl::StatusOr<Plan> ParameterServerStrategy::MakePlan(const ModelPrograms& model,
                                                       const ClusterShape& cluster) const {
  if (cluster.ps.empty()) {
    return absl::InvalidArgumentError(
        "strategy 'parameter_server' needs at least one ps in the cluster");
  }
  if (cluster.workers.empty()) {
    return absl::InvalidArgumentError(
        "strategy 'parameter_server' needs at least one worker in the cluster");
  }
  std::shared_ptr<const Partitioner> partitioner = partitioner_;
  if (partitioner == nullptr && policy_ != PlacementPolicy::kRoundRobin) {
    MinSizePartitionerSpec spec;
    spec.max_shards = static_cast<int64_t>(cluster.ps.size());
    ASSIGN_OR_RETURN(partitioner, MakePartitioner(spec));
  }
  Plan plan;
  VariableCreator creator(cluster.ps, partitioner);
  std::set<std::string> known;
  for (const VariableSpec& variable : model.variables) {
    proto::UpdateRule rule;
    if (variable.trainable) {
      rule = model.update_rule;
      rule.set_sparse(variable.sparse);
    }
    ASSIGN_OR_RETURN(proto::VariableLayout layout, creator.CreateVariable(variable, rule, {}));
    plan.variables.push_back(std::move(layout));
    known.insert(variable.name);
  }
  plan.placement =
      PlacePieces({cluster.ps, policy_, cluster.loads}, absl::MakeSpan(plan.variables));
  for (const proto::Program* program : {&model.train_step, &model.eval_step, &model.predict}) {
    RETURN_IF_ERROR(CheckVariables(*program, known));
  }
  plan.train_step = model.train_step;
  // Evaluation and prediction see the values as they are.
  RETURN_IF_ERROR(Compress(compression_, plan.train_step));
  plan.eval_step = model.eval_step;
  plan.predict = model.predict;
  return plan;
}

int64_t ParameterServerStrategy::NumReplicasInSync(const ClusterShape&) const {
  return 1;
}

}  // namespace cohort
