#pragma once

// Of planes that are seen with zeros around them.

#include <cstdint>

namespace cohort {

struct CudaContext;

// The small plane begins at `top` and `left` of the large one.
struct FramedPlanes {
  int64_t planes = 0;
  int64_t rows = 0;  // of the small one
  int64_t columns = 0;
  int64_t top = 0;
  int64_t left = 0;
  int64_t large_rows = 0;
  int64_t large_columns = 0;
};

struct PaddingLaunch {
  FramedPlanes shape;
  const float* in = nullptr;
  float* out = nullptr;
};

struct PaddingLaunches {
  // Large planes of small ones.
  int32_t (*pad)(CudaContext* context, const PaddingLaunch& launch);
  // Small planes of large ones.
  int32_t (*crop)(CudaContext* context, const PaddingLaunch& launch);
};

// In padding.cu.
PaddingLaunches MakePaddingLaunches();

}  // namespace cohort
