#pragma once

// A variable in this process, with its slots, updated in place as a home updates the slices that it
// keeps: whole gradients in blocks, gradients of rows by the update rule's sparse mode. Nothing
// else reads or writes the memory, so there are no locks and no pages.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/update_kernel.h"
#include "common/tensor/tensor.h"
#include "coordinator/layers/variable_spec.h"

namespace cohort::bench {

// The learning rate and the number of an update; the first update is number 1.
struct UpdateNumber {
  double learning_rate = 0;
  uint64_t step = 1;
};

// A variable of float32. Thread-compatible.
class LocalVariable {
 public:
  // Makes a variable with its initial value. Errors: INVALID_ARGUMENT from the rule or the
  // initializer.
  static absl::StatusOr<LocalVariable> Create(const VariableSpec& spec,
                                              const proto::UpdateRule& rule);

  // Returns the value, whose memory later updates change.
  const Tensor& value() const { return value_; }
  bool trainable() const { return trainable_; }
  // Returns a copy of some rows.
  Tensor Rows(absl::Span<const int64_t> rows) const;

  void Assign(const Tensor& value);
  void Apply(const Tensor& gradient, const UpdateNumber& at);
  // Applies a gradient of the rows `rows`, which ascend.
  void ApplyRows(absl::Span<const int64_t> rows, const Tensor& gradient, const UpdateNumber& at);

 private:
  UpdateStep StepAt(const UpdateNumber& at) const;
  // Points the value's and the slots' spans of `step` at `count` elements from element `begin` on.
  void SetSpans(size_t begin, size_t count, UpdateStep& step);

  bool trainable_ = true;
  UpdateRuleSpec spec_;
  std::unique_ptr<UpdateKernel> kernel_;
  Tensor value_;
  std::vector<Tensor> slots_;
  // For each slot, the number of elements of the value that share one of its elements.
  std::vector<size_t> slot_widths_;
  size_t row_width_ = 1;
};

}  // namespace cohort::bench
