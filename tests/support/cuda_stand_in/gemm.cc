// The product of matrices in plain loops that add up in double, in the place of cuBLAS's.

#include "common/base/check.h"
#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

struct Strides {
  int64_t row;
  int64_t column;
};

// Of a matrix that has so many rows and columns once it was transposed, if it is.
Strides StridesOf(bool transposed, int64_t rows, int64_t columns) {
  return transposed ? Strides{1, rows} : Strides{columns, 1};
}

int32_t Gemm(CudaContext* context, const GemmLaunch& launch) {
  COHORT_CHECK(launch.m > 0 && launch.n > 0 && launch.k > 0 && launch.batch > 0,
               "nothing is empty");
  const Strides in_a = StridesOf(launch.transpose_a, launch.m, launch.k);
  const Strides in_b = StridesOf(launch.transpose_b, launch.k, launch.n);
  const int64_t of_product = launch.m * launch.n;
  return ForEach(context, launch.batch * of_product, [=](int64_t i) {
    const int64_t product = i / of_product;
    const int64_t row = i % of_product / launch.n;
    const int64_t column = i % launch.n;
    const float* const a = launch.a + product * launch.stride_a + row * in_a.row;
    const float* const b = launch.b + product * launch.stride_b + column * in_b.column;
    double sum = 0;
    for (int64_t k = 0; k < launch.k; ++k) {
      sum += static_cast<double>(a[k * in_a.column]) * static_cast<double>(b[k * in_b.row]);
    }
    float& out = launch.c[product * launch.stride_c + row * launch.n + column];
    const double before = launch.beta == 0 ? 0 : launch.beta * static_cast<double>(out);
    out = static_cast<float>(launch.alpha * sum + before);
  });
}

}  // namespace

GemmLaunches MakeGemmLaunches() { return {Gemm}; }

}  // namespace cohort
