#pragma once

// Checks that several calls of PsService make on their requests. Every error is INVALID_ARGUMENT.

#include <cstddef>

#include "absl/status/status.h"
#include "common/tensor/shape.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// Refuses a slice of a dynamic table, which can only be read and changed by keys. Errors:
// INVALID_ARGUMENT.
absl::Status CheckIsWhole(const VariableSlice& shard);
// Checks that a tensor in a request has the slice's element type and the shape `shape`. Errors:
// INVALID_ARGUMENT that names the variable, the tensor's shape and the expected shape.
absl::Status CheckTensor(const proto::TensorMeta& meta, const VariableSlice& shard,
                         const Shape& shape);
// Checks that the payload of a request has `expected` bytes, the size of the request's tensors.
// `came` is the payload's actual size. Errors: INVALID_ARGUMENT.
absl::Status CheckPayload(size_t expected, size_t came);

}  // namespace cohort
