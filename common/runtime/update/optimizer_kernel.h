#pragma once

// The part that the kernels of all optimizers share: weight decay, the moving average, the
// constraint of the value, and the steps that a row has missed. A derived class adds the rule
// itself: the effect of one step, and the effect of several steps without a gradient.
//
// The loops of a step run on the processor at once, or they are posted to a device's stream and use
// memory that both the processor and the device reach. Only the processor makes up for the steps
// that rows have missed. It does so before the first loop over those rows is posted, while nothing
// else reads or writes the rows.

#include <optional>
#include <type_traits>

#include "common/program/update_rule.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/update/constrain.h"
#include "common/runtime/update/missed_loops.h"
#include "common/runtime/update/update_kernel.h"
#include "common/runtime/update/update_loops.h"

namespace cohort {

// Runs the loop of `update` on the processor if `stream` is null, else posts the loop to the
// stream.
template <typename Update>
void RunLoopOn(CudaStream* stream, Launcher<Update> UpdatesLaunches::*launch,
               const std::type_identity_t<Update>& update) {
  if (stream == nullptr) return RunLoop(update);
  stream->Launch(&CudaLaunches::updates, launch, update);
}

struct KernelOptions {
  const proto::UpdateRule& rule;
  const UpdateRuleSpec& spec;
  CudaStream* stream;  // must outlive the kernel; null: the kernel computes on the processor
};

// The base class of the optimizers' kernels. Immutable; thread-safe without a stream, and with a
// stream as thread-safe as the stream.
class OptimizerKernel : public UpdateKernel {
 public:
  explicit OptimizerKernel(const KernelOptions& options);

  void Apply(const UpdateStep& step) const final;

 protected:
  template <typename Update>
  void Run(Launcher<Update> UpdatesLaunches::*launch,
           const std::type_identity_t<Update>& update) const {
    RunLoopOn(stream_, launch, update);
  }
  UpdateSpan SpanOf(const UpdateStep& step) const;
  // Returns the value's spans in `step`. The decay of the result is the share that weight decay
  // takes of the value in all missed steps together.
  static UpdateSpan SpanOf(const UpdateStep& step, const MissedSteps& missed);
  float DecayOf(const UpdateStep& step) const {
    return static_cast<float>(weight_decay_ * step.learning_rate);
  }
  // Returns true if a step consists of the rule alone: the rule keeps neither a moving average nor
  // the last step of each row, accumulates no gradients, and does not constrain the value.
  bool is_rule_alone() const {
    return !use_average_ && last_step_ < 0 && accumulator_ < 0 && !constraint_;
  }

 private:
  virtual void ApplyRule(const UpdateStep& step) const = 0;
  // Applies the missed steps `missed`, which have no gradient, with the learning rate of `step`.
  // Reads the `in` spans of the value and of the rule's own slots, and writes all their `out`
  // spans.
  virtual void CatchUp(const UpdateStep& step, const MissedSteps& missed) const = 0;

  // Applies `step` without the constraint.
  void ApplyFree(const UpdateStep& step) const;
  // Applies `missed` missed steps and then `step` to rows that have all missed the same number of
  // steps.
  void ApplyAfter(uint64_t missed, const UpdateStep& step) const;
  // Applies `step` if the rule accumulates gradients: keeps the gradient, or updates by the mean of
  // the last accumulate_ gradients.
  void ApplyAccumulated(const UpdateStep& step) const;
  void ApplyOnce(const UpdateStep& step) const;
  void UpdateAverage(const UpdateStep& step) const;

  CudaStream* const stream_;
  const double weight_decay_;
  const bool use_average_;
  // The weight of the new value in the moving average, 1 - ema_momentum.
  const float average_share_;
  // The number of steps after which the average overwrites the value; 0: never.
  const uint64_t overwrite_every_;
  // Whether step 1 moves the average from the initial value, as in Keras 2, instead of setting it.
  const bool average_from_start_;
  const bool whole_;           // whether an update must not be divided into parts
  const uint64_t accumulate_;  // the number of gradients in an update; 0 or 1: every one
  const int accumulator_;      // index of the slot kAccumulatorSlot, or -1
  const int last_step_;  // index of the slot kLastStepSlot, or -1 if the rule has no such slot
  const std::optional<Constraint> constraint_;
};

UpdateSpan ToSpan(const UpdateStep& step);
// Returns the spans of slot `index`, which has one element for each `width` elements of the value.
SlotSpan Slot(const UpdateStep& step, size_t index, size_t width = 1);
// Returns the index of the slot `name`, or -1 if the rule has no such slot.
int IndexOfSlot(const UpdateRuleSpec& spec, const std::string& name);
float FloatOf(const proto::UpdateRule& rule, const char* name);
// Returns 1 - beta^t, by which a moving average that began with 0 is divided. Keras and TensorFlow
// round beta to float32 first, which changes the result for 0.999 by 1e-5 of its value, so this
// function does so too. The power is computed in double.
double BiasCorrection(double beta, uint64_t t);

// Copies the `in` of a slot to the slot's `out`.
void KeepSlot(const SlotSpans& slot);
void KeepAll(const UpdateStep& step);
void ScaleSlot(const UpdateStep& step, size_t index, double factor);

}  // namespace cohort
