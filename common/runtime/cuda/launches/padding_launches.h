#pragma once

// Launches for planes that are seen with zeros around them.

#include <cstdint>

namespace cohort {

struct CudaContext;

// The small plane begins at `top` and `left` of the large one.
struct FramedPlanes {
  int64_t planes = 0;
  int64_t rows = 0;  // rows of the small plane
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
  // Makes large planes from small ones.
  int32_t (*pad)(CudaContext* context, const PaddingLaunch& launch);
  // Makes small planes from large ones.
  int32_t (*crop)(CudaContext* context, const PaddingLaunch& launch);
};

// Returns the launches; defined in padding.cu.
PaddingLaunches MakePaddingLaunches();

}  // namespace cohort
