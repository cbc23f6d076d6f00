#include "common/program/update_rule.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// What each rule knows; the learning rate and the step travel in the push.
struct KnownRule {
  absl::string_view op;
  std::vector<absl::string_view> parameters;
};

std::vector<KnownRule> KnownRules() {
  return {{"adagrad", {"epsilon", "initial_accumulator_value"}},
          {"adam", {"amsgrad", "beta_1", "beta_2", "epsilon"}},
          {"assign_add", {}},
          {"rmsprop", {"centered", "epsilon", "momentum", "rho"}},
          {"sgd", {"momentum", "nesterov"}}};
}

absl::Status CheckRange(const proto::UpdateRule& rule, const proto::HyperParameter& parameter) {
  const std::string& name = parameter.name();
  const double value = parameter.value();
  const auto bad = [&](const char* need) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer \"", rule.op(), "\": ", name, " = ",
                                                   value, ", but it must be ", need));
  };
  if (name == "nesterov" || name == "centered" || name == "amsgrad") {
    return value == 0 || value == 1 ? absl::OkStatus() : bad("0 or 1");
  }
  if (name == "momentum") return value >= 0 && value <= 1 ? absl::OkStatus() : bad("in [0, 1]");
  if (name == "rho") return value >= 0 && value <= 1 ? absl::OkStatus() : bad("in [0, 1]");
  if (name == "beta_1" || name == "beta_2") {
    return value >= 0 && value < 1 ? absl::OkStatus() : bad("in [0, 1)");
  }
  // epsilon and initial_accumulator_value; the comparison is false for NaN.
  return value >= 0 ? absl::OkStatus() : bad("0 or more");
}

absl::Status CheckRule(const proto::UpdateRule& rule) {
  const std::vector<KnownRule> rules = KnownRules();
  const auto known = std::find_if(rules.begin(), rules.end(),
                                  [&](const KnownRule& each) { return each.op == rule.op(); });
  if (known == rules.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown optimizer \"", rule.op(),
                     "\": it is one of adagrad, adam, assign_add, rmsprop, sgd"));
  }
  const auto& names = known->parameters;
  std::set<std::string> seen;
  for (const auto& parameter : rule.parameters()) {
    if (std::find(names.begin(), names.end(), parameter.name()) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer \"", rule.op(), "\" has no parameter \"", parameter.name(),
                       "\": it has ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    if (!seen.insert(parameter.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer \"", rule.op(), "\": parameter \"",
                                                     parameter.name(), "\" is given twice"));
    }
    RETURN_IF_ERROR(CheckRange(rule, parameter));
  }
  return absl::OkStatus();
}

}  // namespace

double ParameterOr(const proto::UpdateRule& rule, const std::string& name, double otherwise) {
  for (const auto& parameter : rule.parameters()) {
    if (parameter.name() == name) return parameter.value();
  }
  return otherwise;
}

absl::StatusOr<UpdateRuleSpec> DescribeUpdateRule(const proto::UpdateRule& rule) {
  RETURN_IF_ERROR(CheckRule(rule));
  UpdateRuleSpec spec;
  if (rule.op() == "sgd") {
    if (ParameterOr(rule, "momentum", 0) > 0) spec.slots.push_back({"momentum", 0});
  } else if (rule.op() == "adagrad") {
    const double start = ParameterOr(rule, "initial_accumulator_value", 0.1);
    spec.slots.push_back({"accumulator", static_cast<float>(start)});
  } else if (rule.op() == "rmsprop") {
    spec.slots.push_back({"velocity", 0});
    if (ParameterOr(rule, "momentum", 0) > 0) spec.slots.push_back({"momentum", 0});
    if (ParameterOr(rule, "centered", 0) > 0) spec.slots.push_back({"average_gradient", 0});
  } else if (rule.op() == "adam") {
    spec.slots.push_back({"m", 0});
    spec.slots.push_back({"v", 0});
    if (ParameterOr(rule, "amsgrad", 0) > 0) spec.slots.push_back({"vhat", 0});
  }
  return spec;
}

}  // namespace cohort
