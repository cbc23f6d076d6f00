#pragma once

// Checks that several calls make of what came. Every error is INVALID_ARGUMENT.

#include <cstddef>

#include "absl/status/status.h"
#include "common/tensor/shape.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for a slice of a dynamic table, which has no whole value.
absl::Status CheckIsWhole(const VariableSlice& shard);
// Checks that a tensor is of its shard's type and of this shape. Errors: INVALID_ARGUMENT naming
// the variable, what came and what must.
absl::Status CheckTensor(const proto::TensorMeta& meta, const VariableSlice& shard,
                         const Shape& shape);
// Errors: INVALID_ARGUMENT where a payload has not as many bytes as its tensors need.
absl::Status CheckPayload(size_t expected, size_t came);

}  // namespace cohort
