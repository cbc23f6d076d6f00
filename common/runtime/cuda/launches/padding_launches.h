#pragma once

// Launches (functions that start a loop on a device) that put a frame of zeros around planes, or
// remove the frame.

#include <cstdint>

namespace cohort {

struct CudaContext;

// Small planes inside large planes. A small plane begins at row `top` and column `left` of its
// large plane.
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
  // Makes large planes from small planes; the frame around a small plane is 0.
  int32_t (*pad)(CudaContext* context, const PaddingLaunch& launch);
  // Makes small planes from large planes.
  int32_t (*crop)(CudaContext* context, const PaddingLaunch& launch);
};

// Returns the functions that start padding on a device; padding.cu defines them.
PaddingLaunches MakePaddingLaunches();

}  // namespace cohort
