#pragma once

// Launches of Dropout, that is, functions that start its loops on a device.
// kernels/dropout_support.h says which elements are kept.

#include <cstdint>

namespace cohort {

struct CudaContext;

// Draws the mask, and computes y = kept ? scale * x : 0.
struct DropoutLaunch {
  int64_t count = 0;
  uint64_t key = 0;    // the key of the RandomStream
  uint64_t first = 0;  // number of element 0 in the global batch
  uint32_t threshold = 0;
  float scale = 1;
  const float* x = nullptr;
  float* y = nullptr;    // y may be the same memory as x; null: y is not wanted
  bool* mask = nullptr;  // null: the mask is not wanted
};

// Applies a mask: y = mask ? scale * x : 0.
struct MaskedScaleLaunch {
  int64_t count = 0;
  float scale = 1;
  const float* x = nullptr;
  const bool* mask = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

struct DropoutLaunches {
  int32_t (*dropout)(CudaContext* context, const DropoutLaunch& launch);
  int32_t (*masked_scale)(CudaContext* context, const MaskedScaleLaunch& launch);
};

// Returns the functions that start Dropout on a device; dropout.cu defines them.
DropoutLaunches MakeDropoutLaunches();

}  // namespace cohort
