#pragma once

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/tensor_launches.h"

namespace cohort {

struct WalkPlace {
  int64_t a;
  int64_t b;
};

COHORT_DEVICE inline WalkPlace PlaceOf(const BroadcastWalk& walk, int64_t i) {
  WalkPlace place = {0, 0};
  for (int32_t axis = walk.axes - 1; axis >= 0; --axis) {
    // Integer divisions dominate the cost of finding an element's place. The outermost axis needs
    // no division.
    const int64_t next = axis == 0 ? 0 : i / walk.size[axis];
    const int64_t index = i - next * walk.size[axis];
    place.a += index * walk.stride_a[axis];
    place.b += index * walk.stride_b[axis];
    i = next;
  }
  return place;
}

}  // namespace cohort
