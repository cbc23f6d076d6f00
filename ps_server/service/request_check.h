#pragma once

// Checks of requests that several calls share. Every error is INVALID_ARGUMENT.

#include <cstddef>

#include "absl/status/status.h"
#include "common/tensor/shape.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// Refuses a slice of a dynamic table, which has no whole value. Errors: INVALID_ARGUMENT.
absl::Status CheckIsWhole(const VariableSlice& shard);
// Checks that a tensor of a request has the slice's type and the shape `shape`. Errors:
// INVALID_ARGUMENT that names the variable, the tensor's shape and the right one.
absl::Status CheckTensor(const proto::TensorMeta& meta, const VariableSlice& shard,
                         const Shape& shape);
// Checks that a payload has as many bytes as its tensors need. Errors: INVALID_ARGUMENT.
absl::Status CheckPayload(size_t expected, size_t came);

}  // namespace cohort
