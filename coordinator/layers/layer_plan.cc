#include "coordinator/layers/layer_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

std::vector<size_t> CallSettings::Inputs(const std::string& argument) const {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == argument) inputs.push_back(i);
  }
  return inputs;
}

absl::StatusOr<VariableSpec*> LayerPlan::Add(const PlannedCall& call, const std::string& name,
                                             const Shape& shape, const WeightRules& rules) {
  VariableSpec variable =
      MakeVariable(absl::StrCat(call.settings.layer, "/", name), shape, rules.initializer, seed_);
  variable.trainable = call.settings.trainable;
  const absl::StatusOr<std::map<std::string, double>> constraint =
      ConstraintParameters(rules.constraint, shape);
  RETURN_IF_ERROR(
      Annotate(constraint.status(), absl::StrCat("layer '", call.settings.layer, "', the ",
                                                 rules.constraint.class_name, " of its ", name)));
  variable.rule_parameters = *constraint;
  const auto known = by_name_.find(variable.name);
  if (known == by_name_.end()) {
    auto planned = std::make_unique<Planned>(Planned{call.settings.position, std::move(variable)});
    Planned* const added = planned.get();
    by_name_[added->variable.name] = added;
    if (call.settings.trainable && !rules.regularizer.is_none()) {
      regularized_.push_back({added->variable.name, shape, rules.regularizer});
    }
    variables_.push_back(std::move(planned));
    return &added->variable;
  }
  VariableSpec& before = known->second->variable;
  if (before.shape == shape) return &before;
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", call.settings.layer, "' is used for examples of shape ",
                   call.shape().ToString(), ", for which its ", variable.name, " would be ",
                   shape.ToString(), ", and before as ", before.shape.ToString()));
}

absl::Status LayerPlan::AddLookup(const PlannedCall& call, Lookup lookup) {
  const TensorType& ids = call.inputs[0];
  if (ids.column < 0) {
    return absl::InvalidArgumentError(absl::StrCat("layer '", call.settings.layer,
                                                   "' looks up what layer '", ids.layer,
                                                   "' gives; ids come from an InputLayer"));
  }
  if (ids.dtype != DType::kInt32 && ids.dtype != DType::kInt64) {
    return absl::InvalidArgumentError(absl::StrCat("layer '", call.settings.layer, "' looks up '",
                                                   ids.layer, "', which is ", DTypeName(ids.dtype),
                                                   "; ids are int32 or int64"));
  }
  // Two uses of a table with the same column share one lookup.
  std::vector<Lookup>& lookups = lookups_[ids.column];
  const bool known = std::any_of(lookups.begin(), lookups.end(),
                                 [&](const Lookup& one) { return one.table == lookup.table; });
  if (!known) lookups.push_back(std::move(lookup));
  return absl::OkStatus();
}

absl::Status LayerPlan::CountCall() {
  if (++calls_ <= kPlannedCallsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the model calls its layers more than ", kPlannedCallsMax, " times in all"));
}

const std::vector<Lookup>& LayerPlan::LookupsOf(int column) const {
  static const auto* const kNone = new std::vector<Lookup>();
  const auto found = lookups_.find(column);
  return found == lookups_.end() ? *kNone : found->second;
}

std::vector<VariableSpec> LayerPlan::Variables() const {
  std::vector<const Planned*> order;
  for (const auto& planned : variables_) order.push_back(planned.get());
  std::stable_sort(order.begin(), order.end(),
                   [](const Planned* a, const Planned* b) { return a->position < b->position; });
  std::vector<VariableSpec> variables;
  variables.reserve(order.size());
  for (const Planned* planned : order) variables.push_back(planned->variable);
  return variables;
}

}  // namespace cohort
