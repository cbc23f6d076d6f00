#pragma once

// Launches for products of matrices, that is, functions that start the work on a device: the
// product itself, which a library computes, and the loops that add a bias or Gemm's C.

#include <cstdint>

namespace cohort {

struct CudaContext;

// Computes c = alpha op(a) op(b) + beta c for each of `batch` products. Matrix i of an operand
// begins at i * stride elements; with a stride of 0 all products use the same matrix. Matrices are
// row-major without gaps. op(a) is m x k, so a itself is k x m if transpose_a is set; b likewise.
// All sizes are at least 1. With beta 0, the old content of c is not read. The arithmetic is
// float32, not TF32.
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

// The matrix product of a library: cuBLAS in the backend, plain loops in tests
// (tests/support/cuda_stand_in/gemm.h).
struct GemmLibrary {
  int32_t (*gemm)(CudaContext* context, const GemmLaunch& launch);
};

// Computes x[row][column] += bias[column], then Relu if `relu` is set.
struct BiasLaunch {
  int64_t rows = 0;
  int64_t columns = 0;
  const float* bias = nullptr;
  bool relu = false;
  float* x = nullptr;
};

// Writes Gemm's C into the output: y[row][column] = scale * x[row * row_stride + column *
// column_stride].
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

// Returns the functions that start loops around products on a device; products.cu defines them.
ProductsLaunches MakeProductsLaunches();

}  // namespace cohort
