#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"

// Keras's learning-rate schedules in its serialised form.

namespace cohort {
namespace {

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

// Returns Keras's schedules with their parameters and defaults
// (keras/src/optimizers/schedules/learning_rate_schedule.py). A t_mul below 1 is refused: the
// periods would end at some step, after which Keras returns NaN.
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
  if (parameter.presence == Presence::kRequired) config.Require(parameter.name);
  // An optional parameter stays absent: CosineDecay without `warmup_target` has no warm-up, which
  // no number could express.
  if (parameter.presence == Presence::kOptional &&
      !config.Given(parameter.name, spec.parameters.contains(parameter.name))) {
    return;
  }
  double& number = spec.parameters.emplace(parameter.name, parameter.otherwise).first->second;
  if (parameter.is_bool) {
    bool flag = number != 0;
    config.Bool(parameter.name, &flag);
    number = flag ? 1 : 0;
  } else {
    config.Number(parameter.name, parameter.range, &number);
  }
}

void ReadPieces(ObjectReader& config, ScheduleSpec& spec) {
  const size_t errors = config.errors().size();
  config.Require("boundaries");
  config.Numbers("boundaries", &spec.boundaries);
  config.Require("values");
  config.Numbers("values", &spec.values);
  // If a list has an error, its length is not compared.
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

void ReadSchedule(const JsonPlace& place, ScheduleSpec& spec) {
  std::vector<ClassChoice<ScheduleSpec>> choices;
  for (const ScheduleClass& one : ScheduleClasses()) {
    choices.push_back({one.class_name, {one.class_name, {}, {}, {}}});
  }
  const auto fields = [](ObjectReader& config, ScheduleSpec& schedule) {
    const ScheduleClass* found = FindSchedule(schedule.class_name);
    for (const Parameter& parameter : found->parameters) ReadParameter(parameter, config, schedule);
    // PiecewiseConstantDecay is the only class that has lists in place of parameters.
    if (found->parameters.empty()) ReadPieces(config, schedule);
    config.Ignore("name");
  };
  ReadClass(place, "learning-rate schedule", choices, spec.class_name, fields, spec);
}

}  // namespace cohort
