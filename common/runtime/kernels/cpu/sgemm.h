#pragma once

// Products of float32 matrices on oneDNN.

#include <cstdint>

namespace cohort {

// A matrix in row-major order whose rows begin `stride` elements apart, and whether the product
// uses its transpose.
struct GemmFactor {
  const float* data;
  int64_t stride;
  bool transposed = false;
};
struct GemmResult {
  float* data;
  int64_t stride;
};
// The extents of a product: op(a) is [m,k], op(b) is [k,n] and c is [m,n].
struct GemmExtents {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};
struct GemmScale {
  float alpha = 1;
  float beta = 0;
};

// Computes c = alpha op(a) op(b) + beta c on `threads` OpenMP threads. A beta of 0 also replaces
// elements of c that are not finite. Any extent may be 0.
void Sgemm(const GemmExtents& extents, const GemmFactor& a, const GemmFactor& b,
           const GemmResult& c, const GemmScale& scale, int threads);

}  // namespace cohort
