#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

// Keras's learning-rate schedules in its serialised form.

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr NumberRange kNotNegative = {.min = 0};
constexpr NumberRange kPositive = {.min = 0, .min_excluded = true};
constexpr NumberRange kAny = {};
constexpr NumberRange kFromOne = {.min = 1};

enum class Presence { kRequired, kHasDefault, kOptional };

struct Parameter {
  std::string name;
  NumberRange range;
  Presence presence = Presence::kRequired;
  double otherwise = 0;
  bool is_bool = false;
};

struct ScheduleClass {
  std::string class_name;
  std::vector<Parameter> parameters;
};

// Keras's parameters and defaults (keras/src/optimizers/schedules/learning_rate_schedule.py). A
// t_mul below 1 is refused: the periods would then end at some step, and Keras gives NaN from that
// step on.
const std::vector<ScheduleClass>& ScheduleClasses() {
  static const auto* const kClasses = [] {
    const Parameter start = {"initial_learning_rate", kNotNegative};
    const Parameter steps = {"decay_steps", kPositive};
    const Parameter rate = {"decay_rate", kNotNegative};
    const Parameter staircase = {"staircase", kAny, Presence::kHasDefault, 0, true};
    const Parameter alpha = {"alpha", kNotNegative, Presence::kHasDefault, 0};
    return new std::vector<ScheduleClass>{
        {"ExponentialDecay", {start, steps, rate, staircase}},
        {"PiecewiseConstantDecay", {}},
        {"PolynomialDecay",
         {start,
          steps,
          {"end_learning_rate", kNotNegative, Presence::kHasDefault, 0.0001},
          {"power", kNotNegative, Presence::kHasDefault, 1},
          {"cycle", kAny, Presence::kHasDefault, 0, true}}},
        {"InverseTimeDecay", {start, steps, rate, staircase}},
        {"CosineDecay",
         {start,
          steps,
          alpha,
          {"warmup_target", kNotNegative, Presence::kOptional},
          {"warmup_steps", kNotNegative, Presence::kHasDefault, 0}}},
        {"CosineDecayRestarts",
         {start,
          {"first_decay_steps", kPositive},
          {"t_mul", kFromOne, Presence::kHasDefault, 2},
          {"m_mul", kNotNegative, Presence::kHasDefault, 1},
          alpha}}};
  }();
  return *kClasses;
}

const ScheduleClass* FindSchedule(const std::string& name) {
  for (const ScheduleClass& one : ScheduleClasses()) {
    if (one.class_name == name) return &one;
  }
  return nullptr;
}

void ReadParameter(const Parameter& parameter, ObjectReader& config, ScheduleSpec& spec) {
  const json* const given = parameter.presence == Presence::kRequired
                                ? config.Require(parameter.name)
                                : config.Find(parameter.name);
  // An optional parameter stays absent: CosineDecay without `warmup_target` has no warm-up, which
  // no number could express.
  if (given == nullptr && parameter.presence == Presence::kOptional) return;
  double number = parameter.otherwise;
  if (parameter.is_bool) {
    bool flag = number != 0;
    config.Bool(parameter.name, &flag);
    number = flag ? 1 : 0;
  } else {
    config.Number(parameter.name, parameter.range, &number);
  }
  spec.parameters[parameter.name] = number;
}

std::vector<double> ReadNumbers(const char* key, ObjectReader& config) {
  std::vector<double> numbers;
  const json* const list = config.Require(key);
  if (list == nullptr) return numbers;
  if (!list->is_array()) {
    config.AddError(key, absl::StrCat("is ", JsonExcerpt(*list), "; it must be a list of numbers"));
    return numbers;
  }
  for (const json& item : *list) {
    if (item.is_number() && item.get<double>() >= 0) {
      numbers.push_back(item.get<double>());
    } else {
      config.AddError(key, absl::StrCat("has ", JsonExcerpt(item), "; each must be 0 or more"));
    }
  }
  return numbers;
}

void ReadPieces(ObjectReader& config, ScheduleSpec& spec) {
  const size_t errors = config.errors().size();
  spec.boundaries = ReadNumbers("boundaries", config);
  spec.values = ReadNumbers("values", config);
  // Lists with errors have been reported, so their lengths mean nothing.
  if (config.errors().size() > errors) return;
  if (spec.boundaries.empty() || spec.values.size() != spec.boundaries.size() + 1) {
    config.AddError(
        "values", absl::StrCat("has ", spec.values.size(), " numbers for ", spec.boundaries.size(),
                               " boundaries; it needs one more than there are "
                               "boundaries, of which there must be one"));
  }
  // Boundaries must ascend strictly, so that each value has a range of steps.
  for (size_t i = 1; i < spec.boundaries.size(); ++i) {
    if (spec.boundaries[i] > spec.boundaries[i - 1]) continue;
    config.AddError("boundaries", "must grow");
    return;
  }
}

}  // namespace

ScheduleSpec ReadSchedule(const json& value, const std::string& path, JsonErrors& errors) {
  ScheduleSpec spec;
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return spec;
  const ScheduleClass* found = FindSchedule(form.class_name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const ScheduleClass& one : ScheduleClasses()) names.push_back(one.class_name);
    errors.Add(path, UnknownName("learning-rate schedule", form.class_name, names));
    return spec;
  }
  spec.class_name = found->class_name;
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  for (const Parameter& parameter : found->parameters) ReadParameter(parameter, config, spec);
  // PiecewiseConstantDecay is the only class that has lists in place of parameters.
  if (found->parameters.empty()) ReadPieces(config, spec);
  config.Ignore("name");
  config.Finish();
  return spec;
}

ordered_json ScheduleToJson(const ScheduleSpec& schedule) {
  ordered_json config = ordered_json::object();
  if (!schedule.values.empty()) {
    config["boundaries"] = schedule.boundaries;
    config["values"] = schedule.values;
  }
  for (const Parameter& parameter : FindSchedule(schedule.class_name)->parameters) {
    const auto value = schedule.parameters.find(parameter.name);
    // An optional parameter that was not given stays absent.
    if (value == schedule.parameters.end()) continue;
    if (parameter.is_bool) {
      config[parameter.name] = value->second != 0;
    } else {
      config[parameter.name] = value->second;
    }
  }
  return ClassFormToJson(schedule.class_name, std::move(config));
}

}  // namespace cohort
