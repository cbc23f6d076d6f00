#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/products_launches.h"

namespace cohort {

namespace {

int32_t Bias(CudaContext* context, const BiasLaunch& launch) {
  const int64_t columns = launch.columns;
  const float* const bias = launch.bias;
  const bool relu = launch.relu;
  float* const x = launch.x;
  return ForEach(context, launch.rows * columns, [=] COHORT_DEVICE(int64_t i) {
    const float value = x[i] + bias[i % columns];
    x[i] = relu && value < 0 ? 0 : value;  // a NaN stays NaN
  });
}

int32_t Spread(CudaContext* context, const SpreadLaunch& launch) {
  const int64_t columns = launch.columns;
  const int64_t row_stride = launch.row_stride;
  const int64_t column_stride = launch.column_stride;
  const float scale = launch.scale;
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.rows * columns, [=] COHORT_DEVICE(int64_t i) {
    y[i] = scale * x[i / columns * row_stride + i % columns * column_stride];
  });
}

}  // namespace

ProductsLaunches MakeProductsLaunches() { return {Bias, Spread}; }

}  // namespace cohort
