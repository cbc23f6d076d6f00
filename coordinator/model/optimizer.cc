#include "coordinator/model/optimizer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest_names.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"

namespace cohort {

namespace {

// Returns the sparse mode of this name. The job's reader accepts only known names.
proto::SparseMode ModeOf(const std::string& name) {
  const absl::Span<const char* const> names = SparseModeNames();
  return static_cast<proto::SparseMode>(std::find(names.begin(), names.end(), name) -
                                        names.begin());
}

// Checks that sparse_updates names only trainable variables.
absl::Status CheckNames(const OptimizerSpec& optimizer,
                        const std::vector<VariableSpec>& variables) {
  std::vector<std::string> names;
  for (const VariableSpec& variable : variables) {
    if (variable.trainable) names.push_back(variable.name);
  }
  for (const auto& [name, mode] : optimizer.sparse_updates) {
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("compile.optimizer.config.sparse_updates names '", name,
                     "', which the model does not train; the nearest of its variables are: ",
                     absl::StrJoin(NearestNames(name, names, 3), ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer) {
  proto::UpdateRule rule;
  rule.set_op(optimizer.op);
  // `parameters` is a map sorted by name, so equal optimizers give equal rules.
  for (const auto& [name, value] : optimizer.parameters) {
    proto::HyperParameter* parameter = rule.add_parameters();
    parameter->set_name(name);
    parameter->set_value(value);
  }
  return rule;
}

absl::Status SetUpdates(const OptimizerSpec& optimizer, std::vector<VariableSpec>& variables) {
  if (std::none_of(variables.begin(), variables.end(),
                   [](const VariableSpec& variable) { return variable.trainable; })) {
    return absl::InvalidArgumentError("the model has nothing to train; give it a Dense layer");
  }
  RETURN_IF_ERROR(CheckNames(optimizer, variables));
  proto::UpdateRule rule = MakeUpdateRule(optimizer);
  for (VariableSpec& variable : variables) {
    if (!variable.trainable) continue;
    auto found = optimizer.sparse_updates.find(variable.name);
    // A variable without a sparse mode of its own uses the mode under "", which is for all
    // variables.
    if (found == optimizer.sparse_updates.end()) found = optimizer.sparse_updates.find("");
    if (found != optimizer.sparse_updates.end()) variable.sparse = ModeOf(found->second);
    rule.set_sparse(variable.sparse);
    const std::string context = absl::StrCat("compile.optimizer: variable '", variable.name, "'");
    const absl::StatusOr<UpdateRuleSpec> described = DescribeUpdateRule(rule);
    RETURN_IF_ERROR(Annotate(described.status(), context));
    // A sweeping rule changes every row in each step, and a dynamic table has no list of all rows.
    if (!variable.dynamic.has_value() || !described->sweeps) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        context,
        " is a dynamic table, and dense_exact updates change every row at each step; set "
        "compile.optimizer.config.sparse_updates to lazy or lazy_compensated for it"));
  }
  return absl::OkStatus();
}

}  // namespace cohort
