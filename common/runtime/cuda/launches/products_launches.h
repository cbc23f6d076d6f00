#pragma once

// Launches around products of matrices: the product itself, which a library computes, and what
// surrounds it.

#include <cstdint>

namespace cohort {

struct CudaContext;

// c = alpha op(a) op(b) + beta c, of each of `batch` products: matrix i of an operand begins at
// i * stride elements (0: all use the same one). Matrices are row-major without gaps: op(a) is m x
// k, so a is k x m where it is transposed; likewise b. All sizes are at least 1; with beta 0 what
// was in c is not read. In float32, not TF32.
struct GemmLaunch {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  float alpha = 1;
  float beta = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  int64_t batch = 1;
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_c = 0;
};

// cuBLAS, in the backend; tests have plain loops (tests/support/cuda_stand_in/gemm.h).
struct GemmLibrary {
  int32_t (*gemm)(CudaContext* context, const GemmLaunch& launch);
};

// x[row][column] += bias[column], then Relu where asked.
struct BiasLaunch {
  int64_t rows = 0;
  int64_t columns = 0;
  const float* bias = nullptr;
  bool relu = false;
  float* x = nullptr;
};

// Gemm's C: y[row][column] = scale * x[row * row_stride + column * column_stride].
struct SpreadLaunch {
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1;
  const float* x = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  float* y = nullptr;
};

struct ProductsLaunches {
  int32_t (*bias)(CudaContext* context, const BiasLaunch& launch);
  int32_t (*spread)(CudaContext* context, const SpreadLaunch& launch);
};

// Returns the launches; defined in products.cu.
ProductsLaunches MakeProductsLaunches();

}  // namespace cohort
