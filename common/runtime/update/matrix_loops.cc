#include "common/runtime/update/matrix_loops.h"

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

// The number of partial sums of a row product, which vectorise.
constexpr size_t kLanes = 16;

COHORT_INLINE float RowProduct(const float* a, const float* b, size_t count) {
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    COHORT_IVDEP
    for (size_t k = 0; k < kLanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float lane : sums) sum += lane;
  return sum;
}

}  // namespace

COHORT_SIMD void TimesTransposed(const float* x, MatrixSize size, float* out) {
  const auto [rows, columns] = size;
  for (size_t i = 0; i < rows; ++i) {
    // The product is symmetric, so each pair of rows is multiplied once.
    for (size_t j = 0; j <= i; ++j) {
      const float sum = RowProduct(x + i * columns, x + j * columns, columns);
      out[i * rows + j] = sum;
      out[j * rows + i] = sum;
    }
  }
}

COHORT_SIMD void AddProduct(const float* y, const float* x, MatrixSize size, float* out) {
  const auto [rows, columns] = size;
  for (size_t i = 0; i < rows; ++i) {
    float* const to = out + i * columns;
    for (size_t k = 0; k < rows; ++k) {
      const float factor = y[i * rows + k];
      const float* const from = x + k * columns;
      COHORT_IVDEP
      for (size_t j = 0; j < columns; ++j) to[j] += factor * from[j];
    }
  }
}

}  // namespace cohort
