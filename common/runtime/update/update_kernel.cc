#include "common/runtime/update/update_kernel.h"

#include "common/base/check.h"

namespace cohort {

void UpdateKernel::ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const {
  const size_t width = step.row_width;
  for (const RowUpdate& row : rows) {
    step.gradient = {row.gradient, width};
    step.value_in = step.value_out = absl::MakeSpan(row.value, width);
    for (size_t i = 0; i < step.slots.size(); ++i) {
      const absl::Span<float> slot = absl::MakeSpan(row.slots[i], step.slots[i].out.size());
      step.slots[i] = {slot, slot};
    }
    Apply(step);
  }
}

void AssignAddInt64(absl::Span<const int64_t> delta, absl::Span<const int64_t> value_in,
                    absl::Span<int64_t> value_out) {
  COHORT_CHECK(value_in.size() == delta.size() && value_out.size() == delta.size(),
               "spans of one length");
  // The sum is computed unsigned: a counter that overflows wraps, where a signed sum would be
  // undefined.
  for (size_t i = 0; i < delta.size(); ++i) {
    value_out[i] =
        static_cast<int64_t>(static_cast<uint64_t>(value_in[i]) + static_cast<uint64_t>(delta[i]));
  }
}

}  // namespace cohort
