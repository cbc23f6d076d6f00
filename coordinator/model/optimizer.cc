#include "coordinator/model/optimizer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

bool HasPart(const std::string& name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return absl::StrContains(name, part); });
}

// Returns whether Muon orthogonalizes the updates of this variable. All variables that are not
// matrices, embeddings and excluded layers are updated as by AdamW.
bool IsMuonMatrix(const OptimizerSpec& muon, const VariableSpec& variable) {
  if (variable.shape.rank() != 2 || HasPart(variable.name, muon.exclude_layers)) return false;
  const bool is_embedding = absl::StrContains(absl::AsciiStrToLower(variable.name), "embedding");
  return !is_embedding || muon.parameters.at("exclude_embeddings") == 0;
}

// Returns the AdamW by which Muon updates other variables.
OptimizerSpec AdamOf(const OptimizerSpec& muon) {
  OptimizerSpec adam = muon;
  adam.op = "adam";
  const std::map<std::string, double>& given = muon.parameters;
  adam.parameters = {{"beta_1", given.at("adam_beta_1")},
                     {"beta_2", given.at("adam_beta_2")},
                     {"epsilon", given.at("epsilon")},
                     {"weight_decay", given.at("adam_weight_decay")},
                     {"learning_rate_ratio", given.at("adam_lr_ratio")}};
  for (const char* shared : {"use_ema", "ema_momentum", "ema_overwrite_frequency", "ema_from_start",
                             "gradient_accumulation_steps"}) {
    if (const auto found = given.find(shared); found != given.end()) adam.parameters.insert(*found);
  }
  return adam;
}

// Returns the rule of a variable if it differs from that of the other variables.
std::optional<proto::UpdateRule> OwnRule(const OptimizerSpec& optimizer,
                                         const VariableSpec& variable) {
  const bool by_adam = optimizer.op == "muon" && !IsMuonMatrix(optimizer, variable);
  const bool keeps = HasPart(variable.name, optimizer.exclude_from_weight_decay);
  if (!by_adam && !keeps && variable.rule_parameters.empty()) return std::nullopt;
  OptimizerSpec own = by_adam ? AdamOf(optimizer) : optimizer;
  if (keeps) own.parameters["weight_decay"] = 0;
  for (const auto& [name, value] : variable.rule_parameters) own.parameters[name] = value;
  return MakeUpdateRule(own);
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
  const proto::UpdateRule common = MakeUpdateRule(optimizer);
  for (VariableSpec& variable : variables) {
    if (!variable.trainable) continue;
    variable.rule = OwnRule(optimizer, variable);
    proto::UpdateRule rule = variable.rule.value_or(common);
    auto found = optimizer.sparse_updates.find(variable.name);
    // A variable without a sparse mode of its own uses the mode under "", which is for all
    // variables.
    if (found == optimizer.sparse_updates.end()) found = optimizer.sparse_updates.find("");
    if (found != optimizer.sparse_updates.end()) variable.sparse = ModeOf(found->second);
    rule.set_sparse(variable.sparse);
    const std::string context = absl::StrCat("compile.optimizer: variable '", variable.name, "'");
    const absl::StatusOr<UpdateRuleSpec> described = DescribeUpdateRule(rule);
    RETURN_IF_ERROR(Annotate(described.status(), context));
    if (variable.dynamic.has_value() && described->whole) {
      const bool by_constraint = IsConstrained(rule);
      return absl::InvalidArgumentError(
          absl::StrCat(context, " is a dynamic table, and ",
                       by_constraint ? "its constraint" : optimizer.class_name,
                       " computes with the whole variable; take another ",
                       by_constraint ? "constraint" : "optimizer"));
    }
    // A rule that changes every row in each step does not suit a dynamic table, which has no list
    // of all rows.
    if (!variable.dynamic.has_value() || !described->sweeps) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        context,
        " is a dynamic table, and dense_exact updates change every row at each step; set "
        "compile.optimizer.config.sparse_updates to lazy or lazy_compensated for it"));
  }
  return absl::OkStatus();
}

}  // namespace cohort
