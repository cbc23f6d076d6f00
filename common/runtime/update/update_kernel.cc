#include "common/runtime/update/update_kernel.h"

namespace cohort {

StepMatrix MatrixOf(const Shape& shape) {
  if (shape.rank() < 2) return {};
  return {static_cast<size_t>(shape.dim(shape.rank() - 2)),
          static_cast<size_t>(shape.dim(shape.rank() - 1)), true};
}

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

}  // namespace cohort
