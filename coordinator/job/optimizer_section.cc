#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/program/update_rule.h"
#include "coordinator/job/job_sections.h"

namespace cohort {
namespace {

constexpr NumberRange kNotNegative = {.min = 0};

// A Keras class and its update rule. The parameters with their defaults and ranges are those of the
// update rule (update_rule.h).
struct OptimizerClass {
  const char* class_name;
  const char* op;
  double learning_rate;  // Keras's default learning rate
  // The class's default weight decay, if it differs from that of the update rule.
  std::optional<double> weight_decay = {};
};

constexpr OptimizerClass kOptimizers[] = {
    {"SGD", "sgd", 0.01},
    {"Adadelta", "adadelta", 0.001},
    {"Adagrad", "adagrad", 0.001},
    {"Adam", "adam", 0.001},
    {"AdamW", "adam", 0.001, 0.004},
    {"Adamax", "adamax", 0.001},
    {"Ftrl", "ftrl", 0.001},
    {"Nadam", "nadam", 0.001},
    {"RMSprop", "rmsprop", 0.001},
    {"RowwiseAdagrad", "rowwise_adagrad", 0.001},  // not in Keras
};

// Finds a class by its name, or by its string form in upper or lower case.
const OptimizerClass* FindOptimizer(const std::string& name) {
  for (const OptimizerClass& one : kOptimizers) {
    if (absl::AsciiStrToLower(name) == absl::AsciiStrToLower(one.class_name)) return &one;
  }
  return nullptr;
}

NumberRange RangeOf(ParameterRange range) {
  switch (range) {
    case ParameterRange::kFlag:
    case ParameterRange::kFractionClosed:
      return {.min = 0, .max = 1};
    case ParameterRange::kFraction:
      return {.min = 0, .max = 1, .max_excluded = true};
    case ParameterRange::kNotPositive:
      return {.max = 0};
    case ParameterRange::kNotNegative:
    case ParameterRange::kCount:
      return kNotNegative;
  }
  return {};
}

std::vector<std::string> SparseModes() {
  return {SparseModeNames().begin(), SparseModeNames().end()};
}

// Reads one parameter as a double; flags become 0 or 1.
void ReadParameter(const RuleParameter& parameter, ObjectReader& config, double& number) {
  if (parameter.range == ParameterRange::kFlag) {
    bool flag = number != 0;
    config.Bool(parameter.name, &flag);
    number = flag ? 1 : 0;
  } else if (parameter.range == ParameterRange::kCount) {
    int64_t count = static_cast<int64_t>(number);
    config.Int(parameter.name, {.min = 0, .max = 1'000'000'000}, &count);
    number = static_cast<double>(count);
  } else {
    config.Number(parameter.name, RangeOf(parameter.range), &number);
  }
}

// Reads the learning rate, which Keras before 2.3 called `lr`.
void ReadLearningRate(ObjectReader& config, OptimizerSpec& spec) {
  const bool is_old = config.Find("lr") != nullptr;
  if (is_old && config.Find("learning_rate") != nullptr) {
    return config.AddError("lr", "stands beside learning_rate, its name today; leave it out");
  }
  const bool is_schedule =
      config.recording() ? !spec.schedule.class_name.empty() : config.HoldsObject("learning_rate");
  if (is_schedule) {
    ReadSchedule(*config.Place("learning_rate"), spec.schedule);
  } else {
    config.Number(is_old ? "lr" : "learning_rate", kNotNegative, &spec.learning_rate);
  }
}

// Refuses the older Adagrad and RMSprop, whose arithmetic divides by another root. The older
// classes of the other optimizers compute the same as today's.
void OnlyTodaysArithmetic(const std::string& class_name, ObjectReader& config) {
  bool legacy = false;
  if (config.Given("is_legacy_optimizer", false)) config.Bool("is_legacy_optimizer", &legacy);
  if (!legacy || (class_name != "Adagrad" && class_name != "RMSprop")) return;
  config.AddError("is_legacy_optimizer",
                  absl::StrCat("is true, and that ", class_name,
                               " divides by the root plus epsilon; give epsilon_outside_root true "
                               "in its place"));
}

void ReadClipping(ObjectReader& config, ClippingSpec& clipping) {
  const std::pair<const char*, double*> keys[] = {{"clipnorm", &clipping.clipnorm},
                                                  {"global_clipnorm", &clipping.global_clipnorm},
                                                  {"clipvalue", &clipping.clipvalue}};
  const char* first = nullptr;
  // A limit of 0 counts as given, although it clips nothing.
  for (const auto& [key, value] : keys) {
    if (!config.Given(key, *value > 0)) continue;
    config.Number(key, kNotNegative, value);
    if (first != nullptr) {
      config.AddError(key, absl::StrCat("is given beside ", first,
                                        "; gradients are clipped in one way or not at all"));
    }
    first = key;
  }
}

void ReadModes(ObjectReader& variables, std::map<std::string, std::string>& by_variable) {
  for (const std::string& key : variables.Keys()) by_variable[key] = "";
  if (by_variable.erase("") > 0) variables.AddError("", "has no name of a variable");
  for (auto& [key, mode] : by_variable) variables.Choice(key, SparseModes(), &mode);
  std::erase_if(by_variable, [](const auto& entry) { return entry.second.empty(); });
}

// Reads one sparse mode for all variables, or an object of modes by variable.
void ReadSparseUpdates(ObjectReader& config, std::map<std::string, std::string>& by_variable) {
  constexpr char kKey[] = "sparse_updates";
  const auto of_all = by_variable.find("");
  const bool one_each = of_all == by_variable.end() && !by_variable.empty();
  if (config.recording() ? one_each : config.HoldsObject(kKey)) {
    return config.Object(kKey, ReadModes, &by_variable);
  }
  std::string mode = of_all == by_variable.end() ? "" : of_all->second;
  config.Choice(kKey, SparseModes(), &mode);
  // The mode dense_exact is the default, so it needs no entry.
  if (!mode.empty() && mode != SparseModes()[proto::DENSE_EXACT]) by_variable[""] = mode;
}

}  // namespace

void ReadOptimizer(const JsonPlace& place, OptimizerSpec& spec) {
  const ClassForm form = ReadClassForm(place, spec.class_name);
  if (!form.ok()) return;
  const OptimizerClass* found = FindOptimizer(form.class_name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const OptimizerClass& one : kOptimizers) names.push_back(one.class_name);
    return place.errors.Add(place.path, UnknownName("optimizer", form.class_name, names));
  }
  ObjectReader config = form.Config(found->class_name);
  if (!config.recording()) {
    spec.class_name = found->class_name;
    spec.op = found->op;
    spec.learning_rate = found->learning_rate;
  }
  ReadLearningRate(config, spec);
  for (const RuleParameter& parameter : ParametersOf(spec.op)) {
    // AdamW is Adam with another default of weight_decay.
    const bool own = parameter.name == "weight_decay" && found->weight_decay.has_value();
    const double otherwise = own ? *found->weight_decay : parameter.otherwise;
    const auto number = spec.parameters.emplace(parameter.name, otherwise).first;
    ReadParameter(parameter, config, number->second);
  }
  for (const char* key : {"name", "jit_compile"}) config.Ignore(key);
  OnlyTodaysArithmetic(spec.class_name, config);
  ReadClipping(config, spec.clipping);
  ReadSparseUpdates(config, spec.sparse_updates);
  // Keys of Keras's optimizers that are accepted only if they change nothing.
  config.OnlyNeutral("loss_scale_factor", nullptr);
  config.OnlyNeutral("gradient_accumulation_steps", nullptr);
  config.OnlyNeutral("decay", 0.0);
  config.Finish();
}

}  // namespace cohort
