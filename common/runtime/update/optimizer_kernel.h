#pragma once

// The part that all optimizers' kernels share: weight decay, the moving average, and the steps that
// a row has missed. A kernel itself is a rule: the effect of one step, and that of many steps
// without a gradient.
//
// The loops of a step run on the processor at once, or are posted to a device's stream, on memory
// that both reach. The processor always makes up for the steps that rows have missed: before the
// first loop over those rows is posted, and while nothing else reads or writes them.

#include <type_traits>

#include "common/program/update_rule.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/update/missed_loops.h"
#include "common/runtime/update/update_kernel.h"
#include "common/runtime/update/update_loops.h"

namespace cohort {

// Runs the loop on the processor if `stream` is null.
template <typename Update>
void RunLoopOn(CudaStream* stream, int32_t (*UpdatesLaunches::*launch)(CudaContext*, const Update&),
               const std::type_identity_t<Update>& update) {
  if (stream == nullptr) return RunLoop(update);
  stream->Launch(&CudaLaunches::updates, launch, update);
}

struct KernelOptions {
  const proto::UpdateRule& rule;
  const UpdateRuleSpec& spec;
  CudaStream* stream;  // outlives the kernel; null: the processor
};

// Immutable; thread-safe where the stream is.
class OptimizerKernel : public UpdateKernel {
 public:
  explicit OptimizerKernel(const KernelOptions& options);

  void Apply(const UpdateStep& step) const final;

 protected:
  template <typename Update>
  void Run(int32_t (*UpdatesLaunches::*launch)(CudaContext*, const Update&),
           const std::type_identity_t<Update>& update) const {
    RunLoopOn(stream_, launch, update);
  }
  UpdateSpan SpanOf(const UpdateStep& step) const;
  // Returns the span with the value's loss by all missed steps.
  static UpdateSpan SpanOf(const UpdateStep& step, const MissedSteps& missed);
  float DecayOf(const UpdateStep& step) const {
    return static_cast<float>(weight_decay_ * step.learning_rate);
  }
  // Returns true without an average and without missed steps to make up for.
  bool is_rule_alone() const { return !use_average_ && last_step_ < 0; }

 private:
  virtual void ApplyRule(const UpdateStep& step) const = 0;
  // Steps without a gradient, from every `in` of value and own slots to its `out`. The step's
  // learning rate counts for all of them.
  virtual void CatchUp(const UpdateStep& step, const MissedSteps& missed) const = 0;

  // Rows that have missed the same steps.
  void ApplyAfter(uint64_t missed, const UpdateStep& step) const;
  void ApplyOnce(const UpdateStep& step) const;
  void UpdateAverage(const UpdateStep& step) const;

  CudaStream* const stream_;
  const double weight_decay_;
  const bool use_average_;
  const float average_share_;       // the value's share in its average
  const uint64_t overwrite_every_;  // 0: never
  const int last_step_;             // index of that slot, or -1
};

UpdateSpan ToSpan(const UpdateStep& step);
// Returns a slot with one element for each `width` elements of the value.
SlotSpan Slot(const UpdateStep& step, size_t index, size_t width = 1);
// Returns the index of a slot by name, or -1.
int IndexOfSlot(const UpdateRuleSpec& spec, const std::string& name);
float FloatOf(const proto::UpdateRule& rule, const char* name);

// Copies a slot from in to out.
void KeepSlot(const SlotSpans& slot);
void KeepAll(const UpdateStep& step);
void ScaleSlot(const UpdateStep& step, size_t index, double factor);

// Makes the kernels of Adam, Adamax and Nadam (adam_kernels.cc); returns null for another operator.
std::unique_ptr<UpdateKernel> MakeAdamKernel(const KernelOptions& options);

}  // namespace cohort
