#pragma once

// The merged axes of kernels/broadcast.h in a form for a device. From the index of an element of a
// result, a device computes the places in the two inputs.

#include <cstdint>

namespace cohort {

inline constexpr int kWalkAxesMax = 8;

struct BroadcastWalk {
  int32_t axes = 0;  // number of axes in use; 0: the walk has one element
  int64_t size[kWalkAxesMax] = {};
  int64_t stride_a[kWalkAxesMax] = {};
  int64_t stride_b[kWalkAxesMax] = {};
};

}  // namespace cohort
