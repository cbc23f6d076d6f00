#pragma once

// The part that the kernels of all optimizers share: weight decay, the moving average, and the
// steps that a row has missed. A derived kernel adds the rule itself: the effect of one step, and
// the effect of many steps without a gradient.
//
// The loops of a step run on the processor at once, or they are posted to a device's stream and use
// memory that both the processor and the device reach. Only the processor makes up for the steps
// that rows have missed. It does so before the first loop over those rows is posted, while nothing
// else reads or writes the rows.

#include <type_traits>

#include "common/program/update_rule.h"
#include "common/runtime/cuda/cuda_stream.h"
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
  CudaStream* stream;  // outlives the kernel; null: the kernel computes on the processor
};

// The base class of the optimizers' kernels. Immutable; thread-safe where the stream is.
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
  // Returns the span of `step`, with the share that weight decay takes in all missed steps as its
  // decay.
  static UpdateSpan SpanOf(const UpdateStep& step, const MissedSteps& missed);
  float DecayOf(const UpdateStep& step) const {
    return static_cast<float>(weight_decay_ * step.learning_rate);
  }
  // Returns true if the rule keeps neither a moving average nor the last step of each row, so that
  // a step consists of the rule alone.
  bool is_rule_alone() const { return !use_average_ && last_step_ < 0; }

 private:
  virtual void ApplyRule(const UpdateStep& step) const = 0;
  // Applies missed steps, which have no gradient. Reads every `in` span of the value and of the
  // rule's own slots, and writes the `out` span that belongs to it. All missed steps use the
  // learning rate of `step`.
  virtual void CatchUp(const UpdateStep& step, const MissedSteps& missed) const = 0;

  // Applies `missed` missed steps and then `step` to rows that have all missed the same number of
  // steps.
  void ApplyAfter(uint64_t missed, const UpdateStep& step) const;
  void ApplyOnce(const UpdateStep& step) const;
  void UpdateAverage(const UpdateStep& step) const;

  CudaStream* const stream_;
  const double weight_decay_;
  const bool use_average_;
  const float average_share_;  // the share of the new value in the moving average
  // The number of steps after which the average overwrites the value; 0: never.
  const uint64_t overwrite_every_;
  const int last_step_;  // index of the slot kLastStepSlot, or -1 if the rule has no such slot
};

UpdateSpan ToSpan(const UpdateStep& step);
// Returns the spans of slot `index`, which has one element for each `width` elements of the value.
SlotSpan Slot(const UpdateStep& step, size_t index, size_t width = 1);
// Returns the index of the slot `name`, or -1 if the rule has no such slot.
int IndexOfSlot(const UpdateRuleSpec& spec, const std::string& name);
float FloatOf(const proto::UpdateRule& rule, const char* name);

// Copies a slot unchanged from its `in` to its `out`.
void KeepSlot(const SlotSpans& slot);
void KeepAll(const UpdateStep& step);
void ScaleSlot(const UpdateStep& step, size_t index, double factor);

}  // namespace cohort
