#pragma once

// Tensors joined along an axis, and parts of a tensor.

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Returns `axis` of a tensor of this rank, counted from 0. Errors: INVALID_ARGUMENT for an axis out
// of range, and for scalars, which have no axis.
absl::StatusOr<int> AxisOf(int64_t axis, int rank);

// Joins at least one part along `axis`, which may be negative. Errors: INVALID_ARGUMENT for
// scalars, another rank or type, sizes that differ along another axis, and those of AxisOf.
absl::StatusOr<Tensor> Concatenated(absl::Span<const Tensor> parts, int64_t axis);

// Returns `count` elements from `begin` on along axis number `axis`; they must lie inside.
Tensor PieceOf(const Tensor& whole, int axis, int64_t begin, int64_t count);

}  // namespace cohort
