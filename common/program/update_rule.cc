#include "common/program/update_rule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Range = ParameterRange;

// An update operator and all parameters that the operator accepts.
struct KnownRule {
  std::string op;
  std::vector<RuleParameter> parameters;
};

std::vector<RuleParameter> MuonParameters() {
  return {{"momentum", 0.95, Range::kFractionClosed},
          {"nesterov", 1, Range::kFlag},
          {"ns_steps", 5, Range::kFewSteps},
          {"muon_a", 3.4445, Range::kFinite},
          {"muon_b", -4.775, Range::kFinite},
          {"muon_c", 2.0315, Range::kFinite},
          {"rms_rate", 0.2},
          {"adam_beta_1", 0.9, Range::kFraction},
          {"adam_beta_2", 0.999, Range::kFraction},
          {"epsilon", 1e-7},
          {"adam_weight_decay", 0.004},
          {"adam_lr_ratio", 1},
          {"exclude_embeddings", 1, Range::kFlag}};
}

// Returns the operators and their own parameters, sorted by operator. The learning rate and the
// step are no parameters, because each push carries them.
std::vector<KnownRule> OwnParameters() {
  const RuleParameter rho = {"rho", 0.9, Range::kFractionClosed};
  const RuleParameter momentum = {"momentum", 0, Range::kFractionClosed};
  const RuleParameter beta_1 = {"beta_1", 0.9, Range::kFraction};
  const RuleParameter beta_2 = {"beta_2", 0.999, Range::kFraction};
  const RuleParameter epsilon = {"epsilon", 1e-7};
  const RuleParameter accumulator = {"initial_accumulator_value", 0.1};
  const RuleParameter outside = {"epsilon_outside_root", 0, Range::kFlag};
  const RuleParameter ratio = {.name = "learning_rate_ratio", .otherwise = 1, .of_variables = true};
  return {
      {"adadelta", {{"rho", 0.95, Range::kFractionClosed}, epsilon}},
      {"adafactor",
       {{"beta_2_decay", -0.8, Range::kNotPositive},
        {"epsilon_1", 1e-30},
        {"epsilon_2", 1e-3},
        {"clip_threshold", 1},
        {"relative_step", 1, Range::kFlag}}},
      {"adagrad", {accumulator, epsilon, outside}},
      {"adam", {beta_1, beta_2, epsilon, {"amsgrad", 0, Range::kFlag}, ratio}},
      {"adamax", {beta_1, beta_2, epsilon}},
      {"assign_add", {}},
      {"ftrl",
       {{"learning_rate_power", -0.5, Range::kNotPositive},
        accumulator,
        {"l1_regularization_strength", 0},
        {"l2_regularization_strength", 0},
        {"l2_shrinkage_regularization_strength", 0},
        {"beta", 0}}},
      {"lamb", {beta_1, beta_2, epsilon}},
      {"lion", {{"beta_1", 0.9, Range::kFractionClosed}, {"beta_2", 0.99, Range::kFractionClosed}}},
      {"muon", MuonParameters()},
      {"nadam", {beta_1, beta_2, epsilon, {"schedule_decay", 1, Range::kNotNegative, true}}},
      {"rmsprop", {rho, momentum, epsilon, {"centered", 0, Range::kFlag}, outside}},
      {"rowwise_adagrad", {accumulator, epsilon, outside}},
      {"sgd",
       {momentum, {"nesterov", 0, Range::kFlag}, {"momentum_of_gradients", 0, Range::kFlag}}}};
}

// Returns the parameters of a variable's constraint.
std::vector<RuleParameter> ConstraintParameters() {
  const auto parameter = [](const char* name, double otherwise, Range range) {
    return RuleParameter{
        .name = name, .otherwise = otherwise, .range = range, .of_variables = true};
  };
  return {parameter("constraint", 0, Range::kFewSteps),
          parameter("constraint_min", 0, Range::kNotNegative),
          parameter("constraint_max", 0, Range::kNotNegative),
          parameter("constraint_rate", 1, Range::kFractionClosed),
          parameter("constraint_count", 1, Range::kCount),
          parameter("constraint_stride", 1, Range::kCount),
          parameter("constraint_whole", 0, Range::kFlag)};
}

// Returns the table of all operators, with the parameters that all optimizers share.
const std::vector<KnownRule>& KnownRules() {
  static const auto* const kRules = [] {
    auto* const rules = new std::vector<KnownRule>(OwnParameters());
    for (KnownRule& rule : *rules) {
      // assign_add is not an optimizer, so it does not get the parameters of optimizers.
      if (rule.op == "assign_add") continue;
      rule.parameters.insert(rule.parameters.end(),
                             {{"weight_decay", 0},
                              {"use_ema", 0, Range::kFlag},
                              {"ema_momentum", 0.99, Range::kFractionClosed},
                              {"ema_overwrite_frequency", 0, Range::kCount},
                              {"ema_from_start", 0, Range::kFlag, true},
                              {"gradient_accumulation_steps", 0, Range::kCount, true}});
      for (const RuleParameter& parameter : ConstraintParameters()) {
        rule.parameters.push_back(parameter);
      }
    }
    return rules;
  }();
  return *kRules;
}

const KnownRule* FindRule(const std::string& op) {
  for (const KnownRule& rule : KnownRules()) {
    if (rule.op == op) return &rule;
  }
  return nullptr;
}

const RuleParameter* FindParameter(const KnownRule& rule, const std::string& name) {
  for (const RuleParameter& parameter : rule.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

constexpr const char* kSparseModes[] = {"dense_exact", "lazy", "lazy_compensated"};

// Returns true if the operator computes with numbers of the whole variable: the means of adafactor,
// the norms of lamb, and the matrix of muon.
bool NeedsWhole(const std::string& op) { return op == "adafactor" || op == "lamb" || op == "muon"; }

bool Accumulates(const proto::UpdateRule& rule) {
  return rule.op() != "assign_add" && ParameterOf(rule, "gradient_accumulation_steps") > 1;
}

// Returns true if the constraint's norms take elements of several rows.
bool ConstrainsWhole(const proto::UpdateRule& rule) {
  return IsConstrained(rule) && ParameterOf(rule, "constraint_whole") != 0;
}

// Returns true if the rule leaves a variable and all slots unchanged when the gradient is zero.
bool ZerosChangeNothing(const proto::UpdateRule& rule) {
  const std::string& op = rule.op();
  if (op == "assign_add") return true;
  // A step without a gradient for a row may be the one that applies the row's mean gradient.
  if (Accumulates(rule)) return false;
  // Keras constrains all rows, also those that have not been updated yet.
  if (IsConstrained(rule)) return false;
  // Even with a gradient of zero, weight decay changes the value, and use_ema moves the average
  // towards the value.
  if (ParameterOf(rule, "weight_decay") != 0 || ParameterOf(rule, "use_ema") != 0) return false;
  if (op == "sgd") return ParameterOf(rule, "momentum") == 0;
  return op == "adagrad" || op == "rowwise_adagrad";
}

// Checks that the updates of missed steps shrink from step to step, as LAZY_COMPENSATED needs. The
// j-th missed step of Adam moves a value by beta_1^j / sqrt(beta_2^j) times one step's move, and
// that of Adamax by beta_1^j / beta_2^j times.
absl::Status CheckFades(const proto::UpdateRule& rule) {
  const std::string& op = rule.op();
  if (op == "lion") {
    return absl::InvalidArgumentError(
        "optimizer \"lion\": it moves a value by the sign of its momentum, and that does not fade "
        "in "
        "missed steps, as lazy_compensated needs; use lazy or dense_exact");
  }
  // With amsgrad, Adam divides by the root of the largest v, which does not decay. So its updates
  // shrink for all beta_1 and beta_2.
  const bool root = op == "nadam" || (op == "adam" && ParameterOf(rule, "amsgrad") == 0);
  if (!root && op != "adamax") return absl::OkStatus();
  const double beta_1 = ParameterOf(rule, "beta_1");
  if ((root ? beta_1 * beta_1 : beta_1) < ParameterOf(rule, "beta_2")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer \"", op, "\": lazy_compensated needs ", root ? "beta_1^2" : "beta_1",
                   " < beta_2; they are ", beta_1, " and ", ParameterOf(rule, "beta_2")));
}

// Checks that the rule's sparse mode is known, and that the rule supports it. Both lazy modes
// refuse ema_overwrite_frequency, gradient_accumulation_steps and rules that need the whole
// variable; LAZY_COMPENSATED also needs updates that shrink from one missed
// step to the next (CheckFades).
absl::Status CheckSparseMode(const proto::UpdateRule& rule) {
  if (!proto::SparseMode_IsValid(rule.sparse())) {
    return absl::InvalidArgumentError(absl::StrCat("sparse mode ", static_cast<int>(rule.sparse()),
                                                   " is unknown: it is one of ",
                                                   absl::StrJoin(kSparseModes, ", ")));
  }
  if (rule.sparse() == proto::DENSE_EXACT || rule.op() == "assign_add") return absl::OkStatus();
  if (NeedsWhole(rule.op())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer \"", rule.op(),
                     "\" computes with the whole variable; sparse updates must be dense_exact"));
  }
  // The closed form of missed steps knows nothing of a constraint between them.
  const bool lazily = rule.sparse() == proto::LAZY && !ConstrainsWhole(rule);
  if (IsConstrained(rule) && !lazily) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer \"", rule.op(), "\": the variable has a constraint, with which ",
        "sparse updates must be dense_exact", ConstrainsWhole(rule) ? "" : " or lazy"));
  }
  if (Accumulates(rule)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer \"", rule.op(),
        "\": gradient_accumulation_steps = ", ParameterOf(rule, "gradient_accumulation_steps"),
        " updates all rows at once; sparse updates must be dense_exact then"));
  }
  if (ParameterOf(rule, "use_ema") != 0 && ParameterOf(rule, "ema_overwrite_frequency") != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer \"", rule.op(),
                     "\": ema_overwrite_frequency = ", ParameterOf(rule, "ema_overwrite_frequency"),
                     " makes whole variables their "
                     "averages; sparse updates must be dense_exact then"));
  }
  return rule.sparse() == proto::LAZY_COMPENSATED ? CheckFades(rule) : absl::OkStatus();
}

// Returns the requirement of a parameter's range that `value` violates, or "" if `value` is in the
// range. NaN is in no range, because all comparisons with NaN are false.
const char* Needed(Range range, double value) {
  switch (range) {
    case Range::kFlag:
      return value == 0 || value == 1 ? "" : "0 or 1";
    case Range::kFraction:
      return value >= 0 && value < 1 ? "" : "in [0, 1)";
    case Range::kFractionClosed:
      return value >= 0 && value <= 1 ? "" : "in [0, 1]";
    case Range::kNotNegative:
      return value >= 0 && std::isfinite(value) ? "" : "0 or more";
    case Range::kNotPositive:
      return value <= 0 && std::isfinite(value) ? "" : "0 or less";
    case Range::kFinite:
      return std::isfinite(value) ? "" : "a finite number";
    case Range::kFewSteps:
      return value >= 0 && value <= 100 && std::floor(value) == value
                 ? ""
                 : "a whole number from 0 to 100";
    case Range::kCount:
      return value >= 0 && value <= 1e15 && std::floor(value) == value ? ""
                                                                       : "a whole number from 0 on";
  }
  return "of a known range";
}

absl::Status UnknownParameter(const KnownRule& rule, const std::string& name) {
  std::vector<std::string> names;
  for (const RuleParameter& parameter : rule.parameters) names.push_back(parameter.name);
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer \"", rule.op, "\" has no parameter \"", name, "\": it has ",
                   names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

// Checks that the rule's operator is known, and that the operator has each of the rule's
// parameters. Each parameter must lie in its allowed range and be given only once.
absl::Status CheckRule(const proto::UpdateRule& rule) {
  const KnownRule* const known = FindRule(rule.op());
  if (known == nullptr) {
    std::vector<std::string> ops;
    for (const KnownRule& each : KnownRules()) ops.push_back(each.op);
    return absl::InvalidArgumentError(absl::StrCat("unknown optimizer \"", rule.op(),
                                                   "\": it is one of ", absl::StrJoin(ops, ", ")));
  }
  std::set<std::string> seen;
  for (const proto::HyperParameter& parameter : rule.parameters()) {
    const RuleParameter* const found = FindParameter(*known, parameter.name());
    if (found == nullptr) return UnknownParameter(*known, parameter.name());
    if (!seen.insert(parameter.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer \"", rule.op(), "\": parameter \"",
                                                     parameter.name(), "\" is given twice"));
    }
    const absl::string_view needed = Needed(found->range, parameter.value());
    if (needed.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("optimizer \"", rule.op(),
                                                   "\": ", parameter.name(), " = ",
                                                   parameter.value(), ", but it must be ", needed));
  }
  return absl::OkStatus();
}

// Checks that the norms of a constraint fill the variable, or each of its rows.
absl::Status CheckConstraintFits(const proto::UpdateRule& rule, const Shape& shape) {
  if (!IsConstrained(rule)) return absl::OkStatus();
  const double kind = ParameterOf(rule, "constraint");
  const double block =
      ParameterOf(rule, "constraint_count") * ParameterOf(rule, "constraint_stride");
  int64_t elements = shape.num_elements();
  if (!ConstrainsWhole(rule) && shape.rank() > 0 && shape.dim(0) > 0) elements /= shape.dim(0);
  if (kind <= 4 && block >= 1 && std::fmod(static_cast<double>(elements), block) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("constraint ", kind, " of norms of ", block,
                                                 " elements does not fit a variable of shape ",
                                                 shape.ToString()));
}

// Returns the slots that the rule's operator itself needs, with Keras's names and initial values.
std::vector<SlotSpec> OwnSlots(const proto::UpdateRule& rule) {
  const std::string& op = rule.op();
  // A slot that serves only one parameter (such as momentum or amsgrad) is left out if the
  // parameter is 0, which saves memory on the ps.
  const auto has = [&](const char* name) { return ParameterOf(rule, name) > 0; };
  std::vector<SlotSpec> slots;
  if (op == "sgd") {
    if (has("momentum")) slots = {{"momentum"}};
  } else if (op == "adagrad" || op == "rowwise_adagrad") {
    const double start = ParameterOf(rule, "initial_accumulator_value");
    slots = {{"accumulator", static_cast<float>(start), op == "rowwise_adagrad"}};
  } else if (op == "rmsprop") {
    slots = {{"velocity"}};
    if (has("momentum")) slots.push_back({"momentum"});
    if (has("centered")) slots.push_back({"average_gradient"});
  } else if (op == "adafactor") {
    // Of a variable with fewer than two dimensions, r is the average of each element's square, and
    // c is not used.
    slots = {{.name = "r", .without_dim = 1}, {.name = "c", .without_dim = 2}};
  } else if (op == "lamb") {
    slots = {{"m"}, {"v"}};
  } else if (op == "lion") {
    slots = {{"m"}};
  } else if (op == "muon") {
    slots = {{"momentum"}};
  } else if (op == "adam") {
    slots = {{"m"}, {"v"}};
    if (has("amsgrad")) slots.push_back({"vhat"});
  } else if (op == "adamax") {
    slots = {{"m"}, {"u"}};
  } else if (op == "nadam") {
    slots = {{"m"}, {"v"}};
  } else if (op == "adadelta") {
    slots = {{"accumulated_grad"}, {"accumulated_delta_var"}};
  } else if (op == "ftrl") {
    const double start = ParameterOf(rule, "initial_accumulator_value");
    slots = {{"accumulator", static_cast<float>(start)}, {"linear"}};
  }
  return slots;
}

}  // namespace

const std::vector<RuleParameter>& ParametersOf(const std::string& op) {
  static const auto* const kNone = new std::vector<RuleParameter>();
  const KnownRule* const rule = FindRule(op);
  return rule == nullptr ? *kNone : rule->parameters;
}

absl::Span<const char* const> SparseModeNames() { return kSparseModes; }

double ParameterOf(const proto::UpdateRule& rule, const std::string& name) {
  for (const proto::HyperParameter& parameter : rule.parameters()) {
    if (parameter.name() == name) return parameter.value();
  }
  const KnownRule* const known = FindRule(rule.op());
  const RuleParameter* const found = known ? FindParameter(*known, name) : nullptr;
  // A caller that asks for a parameter that the operator does not have has a bug.
  COHORT_CHECK(found != nullptr, "a parameter of the operator");
  return found->otherwise;
}

Shape ShapeOfSlot(const SlotSpec& slot, const Shape& variable) {
  if (variable.rank() < 2) return variable;
  if (slot.per_row) return Shape{variable.dim(0)};
  if (slot.without_dim == 0) return variable;
  std::vector<int64_t> dims(variable.dims().begin(), variable.dims().end());
  dims.erase(dims.end() - slot.without_dim);
  return Shape(absl::MakeConstSpan(dims));
}

bool IsConstrained(const proto::UpdateRule& rule) {
  return rule.op() != "assign_add" && ParameterOf(rule, "constraint") != 0;
}

absl::Status CheckRuleFits(const proto::UpdateRule& rule, const Shape& shape) {
  RETURN_IF_ERROR(CheckConstraintFits(rule, shape));
  if (rule.op() != "muon" || shape.rank() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer \"muon\" updates matrices, and this is ", shape.ToString(),
                   "; give it the rule adam"));
}

absl::StatusOr<UpdateRuleSpec> DescribeUpdateRule(const proto::UpdateRule& rule) {
  RETURN_IF_ERROR(CheckRule(rule));
  RETURN_IF_ERROR(CheckSparseMode(rule));
  UpdateRuleSpec spec;
  spec.slots = OwnSlots(rule);
  const bool others_change = !ZerosChangeNothing(rule);
  // A sparse push visits the rows without a gradient only in the mode DENSE_EXACT, and only if a
  // gradient of zeros changes a row.
  spec.sweeps = others_change && rule.sparse() == proto::DENSE_EXACT;
  if (others_change && rule.sparse() == proto::LAZY_COMPENSATED) {
    spec.slots.push_back({.name = kLastStepSlot, .per_row = true});
  }
  spec.whole = NeedsWhole(rule.op()) || ConstrainsWhole(rule);
  spec.on_processor = spec.whole || Accumulates(rule) || IsConstrained(rule);
  if (Accumulates(rule)) spec.slots.push_back({kAccumulatorSlot});
  // The average starts as the variable's initial value and not as zeros, because another step's
  // push may be applied before the push of step 1.
  if (rule.op() != "assign_add" && ParameterOf(rule, "use_ema") > 0) {
    spec.slots.push_back({.name = kAverageSlot, .starts_as_value = true});
  }
  return spec;
}

}  // namespace cohort
