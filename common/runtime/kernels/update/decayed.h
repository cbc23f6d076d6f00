#pragma once

#include "common/runtime/kernels/simd.h"

namespace cohort {

// A decay is far below float32's steps around 1, so 1 - decay is not formed.
COHORT_INLINE float Decayed(float value, float decay) { return value - decay * value; }

}  // namespace cohort
