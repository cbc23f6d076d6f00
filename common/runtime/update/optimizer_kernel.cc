#include "common/runtime/update/optimizer_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/check.h"

namespace cohort {

namespace {

// The number of elements that are updated at a time if the rule keeps a moving average. The moving
// average needs a second pass over the value. A part of this size stays in the processor's
// first-level cache during both passes, so memory is read and written only once.
constexpr size_t kPartElements = 1024;

template <typename T>
void Copy(absl::Span<const T> in, absl::Span<T> out) {
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
}

// Sets the spans of `part` to `count` elements of the spans of `step`, from element `begin` on.
// `begin` and `count` are multiples of the row width.
void TakePart(const UpdateStep& step, size_t begin, size_t count, UpdateStep& part) {
  part.gradient = step.gradient.subspan(begin, count);
  part.value_in = step.value_in.subspan(begin, count);
  part.value_out = step.value_out.subspan(begin, count);
  for (size_t i = 0; i < step.slots.size(); ++i) {
    const SlotSpans& slot = step.slots[i];
    // A slot has either one element for each element of the value, or one for each row.
    const size_t width = step.gradient.size() / slot.in.size();
    part.slots[i] = {slot.in.subspan(begin / width, count / width),
                     slot.out.subspan(begin / width, count / width)};
  }
}

// Convert the step of a row's last update from and to the number in the slot kLastStepSlot. The
// step is stored as a uint32 in the bits of a float, because a float's value has too few digits for
// a step.
uint64_t StepOf(float bits) { return std::bit_cast<uint32_t>(bits); }
float BitsOf(uint64_t step) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  return std::bit_cast<float>(static_cast<uint32_t>(std::min(step, kMax)));
}

// Returns the number of steps that a row has missed between its last update (`last`, as stored in
// the slot) and `step`. Pushes come in any order, so the row may already have seen a later step;
// then it has missed nothing.
uint64_t MissedSince(float last, uint64_t step) {
  const uint64_t seen = StepOf(last);
  return step > seen + 1 ? step - seen - 1 : 0;
}

}  // namespace

UpdateSpan ToSpan(const UpdateStep& step) {
  const size_t count = step.gradient.size();
  COHORT_CHECK(step.value_in.size() == count && step.value_out.size() == count,
               "gradient and values of one length");
  return {.gradient = step.gradient.data(),
          .value_in = step.value_in.data(),
          .value_out = step.value_out.data(),
          .count = static_cast<int64_t>(count)};
}

SlotSpan Slot(const UpdateStep& step, size_t index, size_t width) {
  COHORT_CHECK(index < step.slots.size(), "the step has spans for each slot of the rule");
  const SlotSpans& slot = step.slots[index];
  COHORT_CHECK(slot.in.size() * width == step.gradient.size() && slot.out.size() == slot.in.size(),
               "a slot is as long as the gradient, or as its number of rows");
  return {slot.in.data(), slot.out.data()};
}

int IndexOfSlot(const UpdateRuleSpec& spec, const std::string& name) {
  for (size_t i = 0; i < spec.slots.size(); ++i) {
    if (spec.slots[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

float FloatOf(const proto::UpdateRule& rule, const char* name) {
  return static_cast<float>(ParameterOf(rule, name));
}

double BiasCorrection(double beta, uint64_t t) {
  const double rounded = static_cast<float>(beta);
  return 1 - std::pow(rounded, static_cast<double>(t));
}

void KeepSlot(const SlotSpans& slot) { Copy(slot.in, slot.out); }

void KeepAll(const UpdateStep& step) {
  Copy(step.value_in, step.value_out);
  for (const SlotSpans& slot : step.slots) KeepSlot(slot);
}

void ScaleSlot(const UpdateStep& step, size_t index, double factor) {
  ScaleLoop(Slot(step, index), static_cast<int64_t>(step.gradient.size()),
            static_cast<float>(factor));
}

OptimizerKernel::OptimizerKernel(const KernelOptions& options)
    : stream_(options.stream),
      weight_decay_(ParameterOf(options.rule, "weight_decay")),
      use_average_(ParameterOf(options.rule, "use_ema") != 0),
      average_share_(static_cast<float>(1 - ParameterOf(options.rule, "ema_momentum"))),
      overwrite_every_(static_cast<uint64_t>(ParameterOf(options.rule, "ema_overwrite_frequency"))),
      average_from_start_(ParameterOf(options.rule, "ema_from_start") != 0),
      whole_(options.spec.whole),
      accumulate_(static_cast<uint64_t>(ParameterOf(options.rule, "gradient_accumulation_steps"))),
      accumulator_(IndexOfSlot(options.spec, kAccumulatorSlot)),
      last_step_(IndexOfSlot(options.spec, kLastStepSlot)),
      constraint_(ConstraintOf(options.rule)) {}

UpdateSpan OptimizerKernel::SpanOf(const UpdateStep& step) const {
  UpdateSpan span = ToSpan(step);
  span.decay = DecayOf(step);
  return span;
}

UpdateSpan OptimizerKernel::SpanOf(const UpdateStep& step, const MissedSteps& missed) {
  UpdateSpan span = ToSpan(step);
  span.decay = static_cast<float>(missed.Lost());
  return span;
}

void OptimizerKernel::ApplyAccumulated(const UpdateStep& step) const {
  const SlotSpans& sum = step.slots[static_cast<size_t>(accumulator_)];
  UpdateStep update = step;
  // The rule and the average count updates: steps 1 to n are those of update 1, of which step n is
  // applied.
  update.step = (step.step - 1) / accumulate_ + 1;
  if (step.step % accumulate_ != 0) {
    KeepAll(step);
    for (size_t i = 0; i < sum.in.size(); ++i) sum.out[i] = sum.in[i] + step.gradient[i];
    if (use_average_) UpdateAverage(update);
    return;
  }
  std::vector<float> mean(step.gradient.size());
  const float share = 1.0f / static_cast<float>(accumulate_);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = (sum.in[i] + step.gradient[i]) * share;
  update.gradient = mean;
  ApplyOnce(update);
  // A rule may have copied the slot, so it is emptied last.
  std::fill(sum.out.begin(), sum.out.end(), 0.0f);
}

// The constraint comes last, as in Keras: the moving average has the value from before it.
void OptimizerKernel::Apply(const UpdateStep& step) const {
  ApplyFree(step);
  if (constraint_) Constrain(*constraint_, step.value_out);
}

void OptimizerKernel::ApplyFree(const UpdateStep& step) const {
  if (accumulator_ >= 0 && !step.gradient.empty()) return ApplyAccumulated(step);
  if (last_step_ < 0 || step.gradient.empty()) return ApplyOnce(step);
  const SlotSpans& last = step.slots[static_cast<size_t>(last_step_)];
  const size_t rows = last.in.size();
  const size_t width = step.gradient.size() / rows;
  // Consecutive rows that have missed the same number of steps are updated together.
  UpdateStep part;
  for (size_t begin = 0; begin < rows;) {
    const uint64_t missed = MissedSince(last.in[begin], step.step);
    size_t end = begin + 1;
    while (end < rows && MissedSince(last.in[end], step.step) == missed) ++end;
    // If all rows have missed the same number of steps, as in a sparse push, `step` is used without
    // a copy of its spans.
    if (end - begin == rows) {
      ApplyAfter(missed, step);
      break;
    }
    if (begin == 0) part = step;
    TakePart(step, begin * width, (end - begin) * width, part);
    ApplyAfter(missed, part);
    begin = end;
  }
  // The step that is stored for a row never decreases, even if pushes come in any order.
  for (size_t row = 0; row < rows; ++row) {
    last.out[row] = BitsOf(std::max(StepOf(last.in[row]), step.step));
  }
}

void OptimizerKernel::ApplyAfter(uint64_t missed, const UpdateStep& step) const {
  if (missed == 0) return ApplyOnce(step);
  const MissedSteps steps = {static_cast<double>(missed), weight_decay_ * step.learning_rate};
  // The moving average is updated first, while `value_in` still has the value from before the
  // missed steps, because the missed steps move the average towards this value.
  if (use_average_) {
    const double share = 1 - std::pow(1 - average_share_, steps.count);
    RunLoop(
        AverageUpdate{ToSpan(step), Slot(step, step.slots.size() - 1), static_cast<float>(share)});
  }
  CatchUp(step, steps);
  // The step itself starts from the value and the slots that the missed steps have written.
  UpdateStep now = step;
  now.value_in = step.value_out;
  for (SlotSpans& slot : now.slots) slot.in = slot.out;
  ApplyOnce(now);
}

void OptimizerKernel::ApplyOnce(const UpdateStep& step) const {
  const size_t part = std::max<size_t>(kPartElements / step.row_width, 1) * step.row_width;
  // On a device the loops run over the whole value: to update it in parts would take more launches.
  // A rule that needs the whole variable cannot be applied to parts of it.
  const bool in_parts = use_average_ && stream_ == nullptr && !whole_;
  if (!in_parts || step.gradient.size() <= part) {
    ApplyRule(step);
    if (use_average_) UpdateAverage(step);
    return;
  }
  UpdateStep rest = step;
  for (size_t begin = 0; begin < step.gradient.size(); begin += part) {
    TakePart(step, begin, std::min(part, step.gradient.size() - begin), rest);
    ApplyRule(rest);
    UpdateAverage(rest);
  }
}

// Moves the moving average towards the new value. Step 1 sets the average to the value, as Keras 3
// does, if the rule does not say otherwise. Every overwrite_every_ steps the average overwrites the
// value.
void OptimizerKernel::UpdateAverage(const UpdateStep& step) const {
  UpdateSpan span = ToSpan(step);
  span.value_in = step.value_out.data();
  const SlotSpan average = Slot(step, step.slots.size() - 1);
  if (step.step == 1 && !average_from_start_) {
    span.value_out = average.out;
    Run(&UpdatesLaunches::keep, {span});
  } else {
    Run(&UpdatesLaunches::average, {span, average, average_share_});
  }
  if (overwrite_every_ == 0 || step.step % overwrite_every_ != 0) return;
  span.value_in = average.out;
  span.value_out = step.value_out.data();
  Run(&UpdatesLaunches::keep, {span});
}

}  // namespace cohort
