#pragma once

// Applies a pushed gradient to the rows of a slice. common/program/update_rule.h defines the slots
// of an update rule and their start values; kernels do the arithmetic, in Keras's form (the
// formulas and their sources are in rules/updates.h). The order is Keras's, too: weight decay, the
// rule, the moving average. A kernel is a pure function over spans of rows.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

namespace cohort {

struct SlotSpans {
  absl::Span<const float> in;
  absl::Span<float> out;
};

// The last two dimensions of a variable, for rules that need the whole variable; {1, 1} if it has
// fewer than two.
struct StepMatrix {
  size_t rows = 1;
  size_t columns = 1;
  bool is_factored = false;  // whether the variable has two dimensions or more
};

// One update of whole rows, or of a whole variable if the rule asks for it (UpdateRuleSpec::whole).
// All spans have the same length, except that the spans of a slot with SlotSpec::per_row have one
// element for each row, and those of a slot with SlotSpec::without_dim one for each sum over that
// dimension. An `out` may be the same memory as its `in` (in
// place), or a fresh buffer if the old one is still being read. Slots are in the order of
// UpdateRuleSpec::slots.
struct UpdateStep {
  absl::Span<const float> gradient;
  absl::Span<const float> value_in;
  absl::Span<float> value_out;
  std::vector<SlotSpans> slots;
  double learning_rate = 0;
  uint64_t step = 1;     // the step, t in the formulas of the update rules; the first step is 1
  size_t row_width = 1;  // the number of elements in a row of the variable
  StepMatrix matrix = {};
};

// Returns UpdateStep::matrix of a variable of this shape.
StepMatrix MatrixOf(const Shape& shape);

// One row anywhere in memory, which is updated in place.
inline constexpr size_t kRowSlotsMax = 5;
struct RowUpdate {
  const float* gradient;
  float* value;
  float* slots[kRowSlotsMax];
};

// The kernel of one update rule. Immutable; thread-safe.
class UpdateKernel {
 public:
  virtual ~UpdateKernel() = default;
  virtual void Apply(const UpdateStep& step) const = 0;
  // Updates rows that lie anywhere in memory, one after the other. `step` has everything that all
  // rows have in common, including the row width and the lengths of the slots' spans. The call may
  // change where the spans of `step` point.
  virtual void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const;
};

}  // namespace cohort
