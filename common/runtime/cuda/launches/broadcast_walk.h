#pragma once

// The merged axes of broadcast.h, for a device: the places in two tensors of element i of a third.

#include <cstdint>

namespace cohort {

inline constexpr int kWalkAxesMax = 8;

struct BroadcastWalk {
  int32_t axes = 0;  // axes in use; none: one element
  int64_t size[kWalkAxesMax] = {};
  int64_t stride_a[kWalkAxesMax] = {};
  int64_t stride_b[kWalkAxesMax] = {};
};

}  // namespace cohort
