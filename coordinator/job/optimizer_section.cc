#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/program/update_rule.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

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

// Reads one parameter as a double; flags become 0 or 1.
double ReadParameter(const RuleParameter& parameter, double otherwise, ObjectReader& config) {
  if (parameter.range == ParameterRange::kFlag) {
    bool flag = otherwise != 0;
    config.Bool(parameter.name, &flag);
    return flag ? 1 : 0;
  }
  if (parameter.range == ParameterRange::kCount) {
    int64_t count = static_cast<int64_t>(otherwise);
    config.Int(parameter.name, {.min = 0, .max = 1'000'000'000}, &count);
    return static_cast<double>(count);
  }
  double number = otherwise;
  config.Number(parameter.name, RangeOf(parameter.range), &number);
  return number;
}

// Reads the learning rate, which Keras before 2.3 called `lr`.
void ReadLearningRate(ObjectReader& config, OptimizerSpec& spec) {
  const json* const old = config.Find("lr");
  const json* const rate = config.Find("learning_rate");
  if (old != nullptr && rate != nullptr) {
    return config.AddError("lr", "stands beside learning_rate, its name today; leave it out");
  }
  const char* const key = old != nullptr ? "lr" : "learning_rate";
  if (rate != nullptr && rate->is_object()) {
    spec.schedule = ReadSchedule(*rate, JoinPath(config.path(), key), config.errors());
  } else {
    config.Number(key, kNotNegative, &spec.learning_rate);
  }
}

// Refuses the older Adagrad and RMSprop, whose arithmetic divides by another root. The older
// classes of the other optimizers compute the same as today's.
void OnlyTodaysArithmetic(const std::string& class_name, ObjectReader& config) {
  bool legacy = false;
  config.Bool("is_legacy_optimizer", &legacy);
  if (!legacy || (class_name != "Adagrad" && class_name != "RMSprop")) return;
  config.AddError("is_legacy_optimizer",
                  absl::StrCat("is true, and that ", class_name,
                               " divides by the root plus epsilon; give epsilon_outside_root true "
                               "in its place"));
}

ClippingSpec ReadClipping(ObjectReader& config) {
  ClippingSpec clipping;
  const std::pair<const char*, double*> keys[] = {{"clipnorm", &clipping.clipnorm},
                                                  {"global_clipnorm", &clipping.global_clipnorm},
                                                  {"clipvalue", &clipping.clipvalue}};
  const char* first = nullptr;
  // A limit of 0 counts as given, although it clips nothing.
  for (const auto& [key, value] : keys) {
    if (config.Find(key) == nullptr) continue;
    config.Number(key, kNotNegative, value);
    if (first != nullptr) {
      config.AddError(key, absl::StrCat("is given beside ", first,
                                        "; gradients are clipped in one way or not at all"));
    }
    first = key;
  }
  return clipping;
}

// Reads one sparse mode for all variables, or an object of modes by variable.
std::map<std::string, std::string> ReadSparseUpdates(ObjectReader& config) {
  const std::vector<std::string> modes(SparseModeNames().begin(), SparseModeNames().end());
  std::map<std::string, std::string> by_variable;
  const json* const value = config.Find("sparse_updates");
  if (value == nullptr) return by_variable;
  if (!value->is_object()) {
    std::string mode;
    config.Choice("sparse_updates", modes, &mode);
    // The mode dense_exact is the default, so it needs no entry.
    if (!mode.empty() && mode != modes[proto::DENSE_EXACT]) by_variable[""] = mode;
    return by_variable;
  }
  ObjectReader variables(*value, JoinPath(config.path(), "sparse_updates"), config.errors());
  for (const auto& item : value->items()) {
    if (item.key().empty()) {
      variables.AddError("", "has no name of a variable");
      continue;
    }
    std::string mode;
    variables.Choice(item.key(), modes, &mode);
    if (!mode.empty()) by_variable[item.key()] = mode;
  }
  return by_variable;
}

}  // namespace

OptimizerSpec ReadOptimizer(const json& value, const std::string& path, JsonErrors& errors) {
  OptimizerSpec spec;
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return spec;
  const OptimizerClass* found = FindOptimizer(form.class_name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const OptimizerClass& one : kOptimizers) names.push_back(one.class_name);
    errors.Add(path, UnknownName("optimizer", form.class_name, names));
    return spec;
  }
  spec.class_name = found->class_name;
  spec.op = found->op;
  spec.learning_rate = found->learning_rate;
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  ReadLearningRate(config, spec);
  for (const RuleParameter& parameter : ParametersOf(spec.op)) {
    // AdamW is Adam with another default of weight_decay.
    const bool own = parameter.name == "weight_decay" && found->weight_decay.has_value();
    spec.parameters[parameter.name] =
        ReadParameter(parameter, own ? *found->weight_decay : parameter.otherwise, config);
  }
  for (const char* key : {"name", "jit_compile"}) config.Ignore(key);
  OnlyTodaysArithmetic(spec.class_name, config);
  spec.clipping = ReadClipping(config);
  spec.sparse_updates = ReadSparseUpdates(config);
  // Keys of Keras's optimizers that are accepted only if they change nothing.
  config.OnlyNeutral("loss_scale_factor", nullptr);
  config.OnlyNeutral("gradient_accumulation_steps", nullptr);
  config.OnlyNeutral("decay", 0.0);
  config.Finish();
  return spec;
}

ordered_json OptimizerToJson(const OptimizerSpec& optimizer) {
  ordered_json config;
  if (optimizer.schedule.class_name.empty()) {
    config["learning_rate"] = optimizer.learning_rate;
  } else {
    config["learning_rate"] = ScheduleToJson(optimizer.schedule);
  }
  for (const RuleParameter& parameter : ParametersOf(optimizer.op)) {
    const auto value = optimizer.parameters.find(parameter.name);
    const double number = value == optimizer.parameters.end() ? parameter.otherwise : value->second;
    switch (parameter.range) {
      case ParameterRange::kFlag:
        config[parameter.name] = number != 0;
        break;
      case ParameterRange::kCount:
        config[parameter.name] = static_cast<int64_t>(number);
        break;
      default:
        config[parameter.name] = number;
    }
  }
  const ClippingSpec& clipping = optimizer.clipping;
  if (clipping.clipnorm > 0) config["clipnorm"] = clipping.clipnorm;
  if (clipping.global_clipnorm > 0) config["global_clipnorm"] = clipping.global_clipnorm;
  if (clipping.clipvalue > 0) config["clipvalue"] = clipping.clipvalue;
  // The entry "" of sparse_updates stands for all variables.
  const auto of_all = optimizer.sparse_updates.find("");
  if (of_all != optimizer.sparse_updates.end()) {
    config["sparse_updates"] = of_all->second;
  } else if (!optimizer.sparse_updates.empty()) {
    config["sparse_updates"] = optimizer.sparse_updates;
  }
  return ClassFormToJson(optimizer.class_name, std::move(config));
}

}  // namespace cohort
