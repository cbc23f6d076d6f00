#include "common/runtime/kernels/cpu/narrow_products.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

constexpr int64_t kLanes = 16;

// The number of rows of `a` that are added in one pass over the sums. More rows in one pass mean
// that the sums are read and written less often.
constexpr int64_t kRowsAtOnce = 4;

// Returns a copy of a [depth, columns] matrix in which each column is contiguous.
std::vector<float> ColumnsOf(const float* matrix, int64_t depth, int64_t columns) {
  std::vector<float> pieces(static_cast<size_t>(depth * columns));
  for (int64_t column = 0; column < columns; ++column) {
    float* const piece = pieces.data() + column * depth;
    for (int64_t i = 0; i < depth; ++i) piece[i] = matrix[i * columns + column];
  }
  return pieces;
}

// Returns the dot product of a and b. The products are added in 16 partial sums, which are then
// added up, so the order of additions is the same on every instruction set.
COHORT_INLINE float Dot(const float* a, const float* b, int64_t count) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += a[i] * b[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Adds four rows of `a`, each times its weight, to `sums`: sums += weights[0] * row 0 + ... +
// weights[3] * row 3. Each row has `count` elements.
COHORT_INLINE void AddRows(const float* a, const float* weights, float* sums, int64_t count) {
  const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  const float* const a1 = a + count;
  const float* const a2 = a1 + count;
  const float* const a3 = a2 + count;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    sums[i] += (w0 * a[i] + w1 * a1[i]) + (w2 * a2[i] + w3 * a3[i]);
  }
}

COHORT_INLINE void AddRow(const float* a, float weight, float* sums, int64_t count) {
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) sums[i] += weight * a[i];
}

}  // namespace

COHORT_SIMD void NarrowLoop(const NarrowProduct& product) {
  const std::vector<float> pieces = ColumnsOf(product.b, product.depth, product.columns);
  const float* row = product.a;
  float* out = product.out;
  for (int64_t i = 0; i < product.rows; ++i, row += product.depth) {
    for (int64_t column = 0; column < product.columns; ++column) {
      *out++ = Dot(row, pieces.data() + column * product.depth, product.depth);
    }
  }
}

COHORT_SIMD void NarrowLoopOfTransposed(const NarrowProduct& product) {
  // The sums of one column of the result are contiguous, so that AddRows vectorises; the last loop
  // transposes the sums into `out`.
  std::vector<float> sums(static_cast<size_t>(product.rows * product.columns), 0);
  const float* row = product.a;
  int64_t i = 0;
  for (; i + kRowsAtOnce <= product.depth; i += kRowsAtOnce, row += kRowsAtOnce * product.rows) {
    for (int64_t column = 0; column < product.columns; ++column) {
      float weights[kRowsAtOnce];
      for (int64_t each = 0; each < kRowsAtOnce; ++each) {
        weights[each] = product.b[(i + each) * product.columns + column];
      }
      AddRows(row, weights, sums.data() + column * product.rows, product.rows);
    }
  }
  // Adds the remaining rows of `a` one by one; there are fewer than kRowsAtOnce.
  for (; i < product.depth; ++i, row += product.rows) {
    for (int64_t column = 0; column < product.columns; ++column) {
      AddRow(row, product.b[i * product.columns + column], sums.data() + column * product.rows,
             product.rows);
    }
  }
  for (int64_t column = 0; column < product.columns; ++column) {
    for (int64_t each = 0; each < product.rows; ++each) {
      product.out[each * product.columns + column] =
          sums[static_cast<size_t>(column * product.rows + each)];
    }
  }
}

}  // namespace cohort
