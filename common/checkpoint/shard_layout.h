#pragma once

// What the index says of one slice in a data shard, before it is known where the slice lies.

#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "proto/ps.pb.h"

namespace cohort {

// Rows `rows` of the logical tensor `name` of shape `full_shape`; `value` has exactly these rows.
// Shard, offset and checksum are left open. Errors: INVALID_ARGUMENT naming the tensor.
absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const Shape& full_shape,
                                                RowRange rows, const Tensor& value);

}  // namespace cohort
