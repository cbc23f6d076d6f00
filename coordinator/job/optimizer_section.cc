#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "common/program/update_rule.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

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
    {"Adafactor", "adafactor", 0.001},
    {"Adagrad", "adagrad", 0.001},
    {"Adam", "adam", 0.001},
    {"AdamW", "adam", 0.001, 0.004},
    {"Adamax", "adamax", 0.001},
    {"Ftrl", "ftrl", 0.001},
    {"Lamb", "lamb", 0.001},
    {"Lion", "lion", 0.001},
    {"Muon", "muon", 0.001, 0.004},
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
    case ParameterRange::kFinite:
      return {};
    case ParameterRange::kFewSteps:
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
  } else if (parameter.range == ParameterRange::kCount ||
             parameter.range == ParameterRange::kFewSteps) {
    const bool is_few = parameter.range == ParameterRange::kFewSteps;
    int64_t count = static_cast<int64_t>(number);
    config.Int(parameter.name, {.min = 0, .max = is_few ? 100 : 1'000'000'000}, &count);
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

// Returns whether a class of Keras before 2.11 wrote the config: only such classes write `lr` or
// `decay`.
bool IsOfOldClass(ObjectReader& config) {
  bool is_legacy = false;
  if (config.Given("is_legacy_optimizer", false)) config.Bool("is_legacy_optimizer", &is_legacy);
  return is_legacy || config.Find("lr") != nullptr || config.Find("decay") != nullptr;
}

// Returns the value of `decay`, or 0 if it is absent or wrong. `decay` is not recorded, because it
// becomes a schedule.
double DecayOf(ObjectReader& config) {
  const nlohmann::json* const decay = config.Find("decay");
  if (decay == nullptr) return 0;
  if (decay->is_number() && decay->get<double>() >= 0) return decay->get<double>();
  config.AddError("decay",
                  absl::StrCat("is ", JsonExcerpt(*decay), "; it must be a number of at least 0"));
  return 0;
}

// Reads `decay` of the older classes of Keras 2, which divide the learning rate: after n steps it
// is rate / (1 + decay n). For the older Nadam, `decay` is the parameter schedule_decay.
void ReadDecay(ObjectReader& config, OptimizerSpec& spec) {
  constexpr char kMomentumDecay[] = "schedule_decay";
  const double decay = DecayOf(config);
  if (decay == 0) return;
  if (spec.op == "nadam") {
    if (config.Find(kMomentumDecay) != nullptr) {
      return config.AddError("decay",
                             "stands beside schedule_decay, which means the same here; "
                             "leave one of them out");
    }
    spec.parameters[kMomentumDecay] = decay;
    return config.RecordAs(kMomentumDecay, decay);
  }
  if (!spec.schedule.class_name.empty()) {
    return config.AddError("decay",
                           "stands beside a schedule of the learning rate; leave it out, and give "
                           "a schedule that falls as fast as both");
  }
  spec.schedule.class_name = "InverseTimeDecay";
  spec.schedule.parameters = {{"initial_learning_rate", spec.learning_rate},
                              {"decay_steps", 1},
                              {"decay_rate", decay},
                              {"staircase", 0}};
  nlohmann::ordered_json recorded;
  ReadSchedule({"", config.errors(), nullptr, &recorded}, spec.schedule);
  config.RecordAs("learning_rate", recorded);
}

// Sets the arithmetic of the older Adagrad and RMSprop of Keras 2. They divide by sqrt(a) +
// epsilon, except for RMSprop with momentum, which has epsilon under the root, as today's class.
// The Adagrad of Keras without TensorFlow has no key for the initial accumulator, which is 0. The
// older classes of all other optimizers compute the same as today's.
void TakeOldArithmetic(ObjectReader& config, OptimizerSpec& spec) {
  std::map<std::string, double>& parameters = spec.parameters;
  const bool has_momentum = spec.op == "rmsprop" && parameters["momentum"] != 0;
  if ((spec.op != "adagrad" && spec.op != "rmsprop") || has_momentum) return;
  if (config.Find("epsilon_outside_root") == nullptr) {
    parameters["epsilon_outside_root"] = 1;
    config.RecordAs("epsilon_outside_root", true);
  }
  constexpr char kStart[] = "initial_accumulator_value";
  if (spec.op == "adagrad" && config.Find(kStart) == nullptr) {
    parameters[kStart] = 0;
    config.RecordAs(kStart, 0.0);
  }
}

// Reads a list of texts that names of variables may contain. Keras takes regular expressions
// instead.
void ReadNameParts(ObjectReader& config, const char* key, std::vector<std::string>& parts) {
  if (!config.Given(key, !parts.empty())) return;
  config.Strings(key, 0, "parts of variables' names", &parts);
  for (const std::string& part : parts) {
    if (!part.empty() && part.find_first_of("\\^$.|?*+()[]{}") == std::string::npos) continue;
    config.AddError(key, absl::StrCat("has '", Excerpt(part),
                                      "'; each entry must be a part of a variable's name as it is, "
                                      "such as 'bias', not empty and no regular expression"));
  }
}

// Reads the parameters of the optimizer's update rule.
void ReadParameters(const OptimizerClass& known, ObjectReader& config, OptimizerSpec& spec) {
  for (const RuleParameter& parameter : ParametersOf(spec.op)) {
    if (parameter.of_variables) continue;
    const std::string& name = parameter.name;
    if (parameter.rare) {
      const auto set = spec.parameters.find(name);
      double number = set == spec.parameters.end() ? parameter.otherwise : set->second;
      if (!config.Given(name, set != spec.parameters.end())) continue;
      ReadParameter(parameter, config, number);
      if (number != parameter.otherwise) spec.parameters[name] = number;
      continue;
    }
    // AdamW is Adam with another default of weight_decay.
    const bool own = name == "weight_decay" && known.weight_decay.has_value();
    double otherwise = own ? *known.weight_decay : parameter.otherwise;
    // For Muon, null is not the default but switches weight decay, or the scaling of updates, off.
    const bool may_be_left_out =
        name == "weight_decay" || name == "adam_weight_decay" || name == "rms_rate";
    if (spec.op == "muon" && may_be_left_out && config.HoldsNull(name)) otherwise = 0;
    const auto number = spec.parameters.emplace(name, otherwise).first;
    ReadParameter(parameter, config, number->second);
  }
}

// Refuses clipping together with gradient accumulation. Keras clips the mean of the gradients, but
// workers clip each gradient before they push it.
void CheckAccumulation(ObjectReader& config, const OptimizerSpec& spec) {
  const auto steps = spec.parameters.find("gradient_accumulation_steps");
  if (steps == spec.parameters.end() || steps->second <= 1) return;
  if (spec.clipping == ClippingSpec()) return;
  config.AddError("gradient_accumulation_steps",
                  absl::StrCat("is ", steps->second,
                               " beside clipping: Keras clips the mean of the gradients, and "
                               "workers here clip each of them; leave one of both out"));
}

void ReadClipping(ObjectReader& config, ClippingSpec& clipping) {
  const std::pair<const char*, double*> keys[] = {{"clipnorm", &clipping.clipnorm},
                                                  {"global_clipnorm", &clipping.global_clipnorm},
                                                  {"clipvalue", &clipping.clipvalue}};
  const char* first = nullptr;
  // A limit of 0 counts as given, although it does not clip.
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

// Checks loss_scale_factor and drops it. Keras multiplies the loss by it and divides the gradients
// by it, which changes nothing for float32 gradients.
void CheckLossScale(ObjectReader& config) {
  constexpr char kKey[] = "loss_scale_factor";
  const nlohmann::json* const factor = config.Find(kKey);
  if (factor == nullptr || (factor->is_number() && factor->get<double>() > 0)) return;
  config.AddError(
      kKey, absl::StrCat("is ", JsonExcerpt(*factor), "; it must be a number above 0, or null"));
}

void ReadUnwrapped(const JsonPlace& place, int keras, OptimizerSpec& spec) {
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
  ReadParameters(*found, config, spec);
  for (const char* key : {"name", "jit_compile"}) config.Ignore(key);
  ReadDecay(config, spec);
  // Only Keras 2 writes is_legacy_optimizer.
  const bool is_keras_2 = keras == 2 || config.Find("is_legacy_optimizer") != nullptr;
  if (IsOfOldClass(config)) TakeOldArithmetic(config, spec);
  constexpr char kFromStart[] = "ema_from_start";
  if (is_keras_2 && !config.recording() && spec.parameters["use_ema"] != 0 &&
      config.Find(kFromStart) == nullptr) {
    spec.parameters[kFromStart] = 1;
    config.RecordAs(kFromStart, true);
  }
  ReadClipping(config, spec.clipping);
  ReadSparseUpdates(config, spec.sparse_updates);
  ReadNameParts(config, "exclude_from_weight_decay", spec.exclude_from_weight_decay);
  if (spec.op == "muon") ReadNameParts(config, "exclude_layers", spec.exclude_layers);
  CheckAccumulation(config, spec);
  CheckLossScale(config);
  config.Finish();
}

// Returns whether the place holds Keras's wrapper that scales the loss.
bool IsLossScaleOptimizer(const JsonPlace& place) {
  if (place.value == nullptr || !place.value->is_object()) return false;
  const auto name = place.value->find("class_name");
  return name != place.value->end() && name->is_string() &&
         name->get<std::string>() == "LossScaleOptimizer";
}

}  // namespace

void ReadOptimizer(const JsonPlace& place, int keras, OptimizerSpec& spec) {
  if (!IsLossScaleOptimizer(place)) return ReadUnwrapped(place, keras, spec);
  // The inner optimizer is recorded in place of the wrapper, so the form of the wrapper is read
  // without recording.
  const ClassForm form = ReadClassForm({place.path, place.errors, place.value}, "");
  if (!form.ok()) return;
  ObjectReader config = form.Config("LossScaleOptimizer");
  // Keras before 2.4 has other names for the optimizer and the scale.
  const char* const key = config.Find("optimizer") != nullptr ? "optimizer" : "inner_optimizer";
  config.Require(key);
  const std::optional<JsonPlace> inner = config.Place(key);
  for (const char* ignored :
       {"name", "dynamic", "initial_scale", "dynamic_growth_steps", "loss_scale", "learning_rate",
        "ema_momentum", "jit_compile", "is_legacy_optimizer", "loss_scale_factor"}) {
    config.Ignore(ignored);
  }
  for (const char* neutral : {"weight_decay", "clipnorm", "global_clipnorm", "clipvalue",
                              "ema_overwrite_frequency", "gradient_accumulation_steps"}) {
    config.OnlyNeutral(neutral, nullptr);
  }
  config.OnlyNeutral("use_ema", false);
  config.Finish();
  if (inner) ReadUnwrapped({inner->path, inner->errors, inner->value, place.record}, keras, spec);
}

}  // namespace cohort
