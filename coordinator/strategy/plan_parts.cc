#include "coordinator/strategy/plan_parts.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "common/wire/frame_limits.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/variable_pieces.h"

namespace cohort {
namespace {

// Checks that the program reads and updates only variables that are in `known`. Errors:
// INVALID_ARGUMENT naming the program and the variable.
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

// Returns the variables of which a program reads single rows, by ids from the batch.
std::set<std::string> TablesOf(const ModelPrograms& model) {
  std::set<std::string> tables;
  for (const proto::Program* program : {&model.train_step, &model.eval_step, &model.predict}) {
    for (const proto::InputBinding& input : program->inputs()) {
      if (!input.rows_of().empty()) tables.insert(input.rows_of());
    }
  }
  return tables;
}

// Moves variables to the memory of a GPU: those that are trained there as a whole, in every step.
// Tables stay in the processor's memory, because the processor looks up their rows. Variables that
// are only assigned, such as statistics, stay as well.
void KeepOn(const std::string& device, const ModelPrograms& model, Plan& plan) {
  const std::set<std::string> tables = TablesOf(model);
  // `plan.placement` has one entry per slice, in the order of the variables.
  size_t piece = 0;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const VariableSpec& variable = model.variables[i];
    proto::VariableLayout& layout = plan.variables[i];
    // A rule that runs on the processor keeps its variable in the processor's memory.
    const absl::StatusOr<UpdateRuleSpec> rule = DescribeUpdateRule(layout.rule());
    const bool kept = variable.trainable && variable.dtype == DType::kFloat32 &&
                      !tables.contains(variable.name) && layout.replicas() == 0 && rule.ok() &&
                      !rule->on_processor;
    if (kept) layout.set_device(device);
    for (int slice = 0; slice < layout.slices_size(); ++slice, ++piece) {
      if (kept) plan.placement[piece].reason = absl::StrCat("it is trained on ", device);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<proto::VariableLayout>> LayOutVariables(const ModelPrograms& model,
                                                                   VariableCreator& creator,
                                                                   int64_t replicas) {
  VariableOptions options;
  options.replicas = replicas;
  std::vector<proto::VariableLayout> layouts;
  for (const VariableSpec& variable : model.variables) {
    proto::UpdateRule rule;
    if (variable.trainable) {
      rule = variable.rule.value_or(model.update_rule);
      rule.set_sparse(variable.sparse);
    } else {
      rule.set_op("assign_add");  // the rule of variables that no optimizer updates
    }
    ASSIGN_OR_RETURN(proto::VariableLayout layout, creator.CreateVariable(variable, rule, options));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

void ExplainWholes(Plan& plan) {
  size_t piece = 0;
  for (const proto::VariableLayout& layout : plan.variables) {
    const absl::StatusOr<UpdateRuleSpec> rule = DescribeUpdateRule(layout.rule());
    for (int slice = 0; slice < layout.slices_size(); ++slice, ++piece) {
      if (!rule.ok() || !rule->whole) continue;
      absl::StrAppend(&plan.placement[piece].reason, "; not cut into slices, because ",
                      IsConstrained(layout.rule()) ? "its constraint" : layout.rule().op(),
                      " computes with the whole variable");
    }
  }
}

void CutPieces(Plan& plan) {
  uint32_t next_slice_id = 0;
  for (proto::VariableLayout& layout : plan.variables) {
    // No slice may have more bytes than one call carries.
    CutPieces(kCallBytesMax, next_slice_id, layout);
  }
}

proto::Program OnDevices(const proto::Program& program, absl::Span<const std::string> devices) {
  proto::Program replicated = program;
  for (const std::string& device : devices) replicated.mutable_replicas()->add_devices(device);
  return replicated;
}

absl::StatusOr<Plan> PlanReplicated(const ModelPrograms& model, const ReplicatedTraining& how) {
  RETURN_IF_ERROR(CheckPrograms(model));
  Plan plan;
  plan.homes = Role::kWorker;
  plan.gangs = true;
  // Without a partitioner, every variable is a single piece.
  VariableCreator creator(how.home, nullptr);
  ASSIGN_OR_RETURN(plan.variables, LayOutVariables(model, creator, how.own_values));
  plan.placement =
      PlacePieces({how.home, PlacementPolicy::kRoundRobin, {}}, absl::MakeSpan(plan.variables));
  for (PiecePlacement& piece : plan.placement) piece.reason = how.reason;
  if (!how.parameter_device.empty()) KeepOn(how.parameter_device, model, plan);
  CutPieces(plan);
  // If there is a single replica, it has nothing to sum with others, so it runs the plain train
  // step.
  const bool differs = how.replicas > 1 && !model.replicated_train_step.name().empty();
  plan.train_step =
      OnDevices(differs ? model.replicated_train_step : model.train_step, how.devices);
  plan.eval_step = OnDevices(model.eval_step, how.devices);
  plan.predict = OnDevices(model.predict, how.devices);
  return plan;
}

absl::Status CheckPrograms(const ModelPrograms& model) {
  std::set<std::string> known;
  for (const VariableSpec& variable : model.variables) known.insert(variable.name);
  for (const proto::Program* program : {&model.train_step, &model.eval_step, &model.predict}) {
    RETURN_IF_ERROR(CheckVariables(*program, known));
  }
  return absl::OkStatus();
}

absl::Status CheckExchanges(const ModelPrograms& model, const std::string& type, int64_t replicas) {
  if (!model.exchanges || replicas == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model normalizes by the batches of all replicas of a step (BatchNormalization with "
      "synchronized true), or its loss is divided by a number of all of them (a reduction other "
      "than sum_over_batch_size, ignore_class, Circle), but the ",
      replicas, " replicas of a step of strategy '", type,
      "' do not meet while they compute; set synchronized to false or take another reduction, or "
      "set strategy.type to mirrored, whose replicas do"));
}

}  // namespace cohort
