#pragma once

// Applies a pushed gradient to the rows of a slice. The update rule's slots and their start values
// are defined in common/program/update_rule.h; this is the arithmetic, in Keras's form (formulas
// with their sources in kernels/update/updates.h). The order is Keras's too: weight decay, the
// rule, the moving average. Plain functions over spans of rows: the ps calls them, the ApplyUpdate
// operator wraps them.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace cohort {

struct SlotSpans {
  absl::Span<const float> in;
  absl::Span<float> out;
};

// An application to whole rows. All spans have the same length, but for those of a slot with
// SlotSpec::per_row, which have one element for each row. An `out` may be its `in` (in place) or a
// fresh buffer, if the old one is still being read. Slots are in the order of
// UpdateRuleSpec::slots.
struct UpdateStep {
  absl::Span<const float> gradient;
  absl::Span<const float> value_in;
  absl::Span<float> value_out;
  std::vector<SlotSpans> slots;
  double learning_rate = 0;
  uint64_t step = 1;     // t, counts from 1
  size_t row_width = 1;  // elements of a row; matters to a rule with a slot per row only
};

// A row somewhere in memory, changed in place.
inline constexpr size_t kRowSlotsMax = 5;
struct RowUpdate {
  const float* gradient;
  float* value;
  float* slots[kRowSlotsMax];
};

// Immutable; thread-safe.
class UpdateKernel {
 public:
  virtual ~UpdateKernel() = default;
  virtual void Apply(const UpdateStep& step) const = 0;
  // Updates rows that lie anywhere, one after the other. `step` has what is the same for all rows,
  // the width and the lengths of the slots' spans among it; the places of its spans are changed.
  virtual void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const;
};

// Adds `delta` to an int64 variable (the rule "assign_add", for counters). The spans have one
// length; overflow wraps.
void AssignAddInt64(absl::Span<const int64_t> delta, absl::Span<const int64_t> value_in,
                    absl::Span<int64_t> value_out);

}  // namespace cohort
