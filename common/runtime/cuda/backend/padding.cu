#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/padding_launches.h"

namespace cohort {

namespace {

int32_t Pad(CudaContext* context, const PaddingLaunch& launch) {
  const FramedPlanes s = launch.shape;
  const float* const in = launch.in;
  float* const out = launch.out;
  return ForEach(context, s.planes * s.large_rows * s.large_columns, [=] COHORT_DEVICE(int64_t i) {
    const int64_t column = i % s.large_columns - s.left;
    const int64_t row = i / s.large_columns % s.large_rows - s.top;
    const int64_t plane = i / s.large_columns / s.large_rows;
    const bool within = column >= 0 && column < s.columns && row >= 0 && row < s.rows;
    out[i] = within ? in[(plane * s.rows + row) * s.columns + column] : 0;
  });
}

int32_t Crop(CudaContext* context, const PaddingLaunch& launch) {
  const FramedPlanes s = launch.shape;
  const float* const in = launch.in;
  float* const out = launch.out;
  return ForEach(context, s.planes * s.rows * s.columns, [=] COHORT_DEVICE(int64_t i) {
    const int64_t column = i % s.columns + s.left;
    const int64_t row = i / s.columns % s.rows + s.top;
    const int64_t plane = i / s.columns / s.rows;
    out[i] = in[(plane * s.large_rows + row) * s.large_columns + column];
  });
}

}  // namespace

PaddingLaunches MakePaddingLaunches() { return {Pad, Crop}; }

}  // namespace cohort
