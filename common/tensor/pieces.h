#pragma once

// Functions that join tensors along an axis and copy a part of a tensor.

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Returns the axis number, counted from 0, for an `axis` that may be negative. Errors:
// INVALID_ARGUMENT for an axis out of range, and for scalars (rank 0), which have no axis.
absl::StatusOr<int> AxisOf(int64_t axis, int rank);

// Joins one or more tensors along `axis`, which may be negative. Errors: INVALID_ARGUMENT for
// tensors that differ in rank, in type, or in their size along another axis; the errors of AxisOf.
absl::StatusOr<Tensor> Concatenated(absl::Span<const Tensor> parts, int64_t axis);

// Returns a copy of a part of `whole`: of the indices [begin, begin + count) along `axis`. The
// range must lie inside the tensor.
Tensor PieceOf(const Tensor& whole, int axis, int64_t begin, int64_t count);

}  // namespace cohort
