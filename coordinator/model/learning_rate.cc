#include "coordinator/model/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace cohort {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Returns a parameter of the schedule; the job's reader has filled in all defaults.
double Get(const ScheduleSpec& schedule, const std::string& name) {
  const auto found = schedule.parameters.find(name);
  return found == schedule.parameters.end() ? 0 : found->second;
}

// Returns the number of decays after `step` steps, rounded down with staircase.
double Decays(const ScheduleSpec& schedule, double step) {
  const double decays = step / Get(schedule, "decay_steps");
  return Get(schedule, "staircase") != 0 ? std::floor(decays) : decays;
}

double Piecewise(const ScheduleSpec& schedule, double step) {
  size_t piece = 0;
  // At a step that equals a boundary, the rate before the boundary still holds, as in Keras.
  while (piece < schedule.boundaries.size() && step > schedule.boundaries[piece]) ++piece;
  return piece < schedule.values.size() ? schedule.values[piece] : 0;
}

double Polynomial(const ScheduleSpec& schedule, double step) {
  double period = Get(schedule, "decay_steps");
  if (Get(schedule, "cycle") == 0) {
    step = std::min(step, period);
  } else if (step > 0) {
    // With cycle, the period grows by whole multiples until it covers the step.
    period *= std::ceil(step / period);
  }
  const double end = Get(schedule, "end_learning_rate");
  return (Get(schedule, "initial_learning_rate") - end) *
             std::pow(1 - step / period, Get(schedule, "power")) +
         end;
}

// Returns the fraction of the initial rate that is left after `fraction` of half a cosine wave,
// which ends at `alpha`.
double Wave(double fraction, double alpha) {
  return (1 - alpha) * 0.5 * (1 + std::cos(kPi * fraction)) + alpha;
}

double Cosine(const ScheduleSpec& schedule, double step) {
  const double start = Get(schedule, "initial_learning_rate");
  const double period = Get(schedule, "decay_steps");
  const double alpha = Get(schedule, "alpha");
  if (!schedule.parameters.contains("warmup_target")) {
    return start * Wave(std::min(step, period) / period, alpha);
  }
  const double target = Get(schedule, "warmup_target");
  const double warmup = Get(schedule, "warmup_steps");
  // The warm-up is linear, and the decay begins after the warm-up.
  if (step < warmup) return start + (target - start) * (step / warmup);
  return target * Wave(std::min(step - warmup, period) / period, alpha);
}

// Returns the sum of the lengths 1, t, t^2, ... of the first n periods.
double PeriodsUntil(double t, double n) { return t == 1 ? n : (std::pow(t, n) - 1) / (t - 1); }

double CosineRestarts(const ScheduleSpec& schedule, double step) {
  const double t = Get(schedule, "t_mul");
  const double alpha = Get(schedule, "alpha");
  const double periods = step / Get(schedule, "first_decay_steps");
  // The inverse of PeriodsUntil: the number of periods whose lengths add up to `periods`.
  double restarts = t == 1 ? periods : std::log1p(periods * (t - 1)) / std::log(t);
  restarts = std::floor(restarts);
  // The logarithm may be rounded to the wrong side of a whole number, so the number of restarts is
  // checked.
  if (PeriodsUntil(t, restarts + 1) <= periods) restarts += 1;
  if (PeriodsUntil(t, restarts) > periods) restarts -= 1;
  const double fraction = (periods - PeriodsUntil(t, restarts)) / std::pow(t, restarts);
  const double height = std::pow(Get(schedule, "m_mul"), restarts);
  const double wave = 0.5 * height * (1 + std::cos(kPi * fraction));
  return Get(schedule, "initial_learning_rate") * ((1 - alpha) * wave + alpha);
}

}  // namespace

double LearningRateAt(const OptimizerSpec& optimizer, int64_t steps_before) {
  const ScheduleSpec& schedule = optimizer.schedule;
  const std::string& name = schedule.class_name;
  const double step = static_cast<double>(steps_before);
  const double start = Get(schedule, "initial_learning_rate");
  if (name == "ExponentialDecay") {
    return start * std::pow(Get(schedule, "decay_rate"), Decays(schedule, step));
  }
  if (name == "InverseTimeDecay") {
    return start / (1 + Get(schedule, "decay_rate") * Decays(schedule, step));
  }
  if (name == "PiecewiseConstantDecay") return Piecewise(schedule, step);
  if (name == "PolynomialDecay") return Polynomial(schedule, step);
  if (name == "CosineDecay") return Cosine(schedule, step);
  if (name == "CosineDecayRestarts") return CosineRestarts(schedule, step);
  // Without a schedule the rate is constant.
  return optimizer.learning_rate;
}

}  // namespace cohort
