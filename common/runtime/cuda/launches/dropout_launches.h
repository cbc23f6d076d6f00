#pragma once

// Launches of Dropout; kernels/dropout_support.h says which element is kept.

#include <cstdint>

namespace cohort {

struct CudaContext;

struct DropoutLaunch {
  int64_t count = 0;
  uint64_t key = 0;    // key of the RandomStream
  uint64_t first = 0;  // number of element 0 in the global batch
  uint32_t threshold = 0;
  float scale = 1;
  const float* x = nullptr;
  float* y = nullptr;    // may be x; nullptr: not wanted
  bool* mask = nullptr;  // nullptr: not wanted
};

// y = mask ? scale * x : 0
struct MaskedScaleLaunch {
  int64_t count = 0;
  float scale = 1;
  const float* x = nullptr;
  const bool* mask = nullptr;
  float* y = nullptr;  // may be x
};

struct DropoutLaunches {
  int32_t (*dropout)(CudaContext* context, const DropoutLaunch& launch);
  int32_t (*masked_scale)(CudaContext* context, const MaskedScaleLaunch& launch);
};

// Returns the launches; defined in dropout.cu.
DropoutLaunches MakeDropoutLaunches();

}  // namespace cohort
