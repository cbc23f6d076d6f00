#pragma once

// Tensors behind each other along an axis, and parts of one.

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// `axis` of a tensor of this rank, counted from 0. Errors: INVALID_ARGUMENT for one that is out of
// range, and for scalars, which have none.
absl::StatusOr<int> AxisOf(int64_t axis, int rank);

// One behind the other along `axis`, which may be negative; at least one. Errors: INVALID_ARGUMENT
// for scalars, another rank or type, sizes that differ along another axis, and those of AxisOf.
absl::StatusOr<Tensor> Concatenated(absl::Span<const Tensor> parts, int64_t axis);

// `count` from `begin` on along axis number `axis`, which lie inside.
Tensor PieceOf(const Tensor& whole, int axis, int64_t begin, int64_t count);

}  // namespace cohort
