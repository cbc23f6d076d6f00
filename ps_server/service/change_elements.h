#pragma once

#include <cstddef>

#include "common/tensor/dtype.h"
#include "proto/ps.pb.h"

namespace cohort {

// value[i] = value[i] op operand[i], for `bytes` of whole elements of float32, int32 or int64,
// aligned for them. Whole numbers wrap around; an operand of 0 does not divide: whoever checks the
// message refuses it.
void ChangeElements(proto::ChangeOp op, DType dtype, std::byte* value, const std::byte* operand,
                    size_t bytes);

}  // namespace cohort
