#pragma once

// Matrix products with few columns: a library's kernel computes as many at once as a register has
// floats, of which these would use a part. Both read the large matrix once, in order. Compiled for
// several instruction sets (kernels/simd.h); sums are in the same order on all of them.

#include <cstdint>

namespace cohort {

inline constexpr int64_t kNarrowMax = 4;

// A product of float matrices, row by row: b is [depth, columns], out [rows, columns]. All extents
// are positive, `columns` at most kNarrowMax. The output overlaps no input.
struct NarrowProduct {
  const float* a;
  const float* b;
  float* out;
  int64_t rows;
  int64_t depth;
  int64_t columns;
};

// Multiplies a of [rows, depth].
void NarrowLoop(const NarrowProduct& product);
// Multiplies the transpose of a, which is [depth, rows].
void NarrowLoopOfTransposed(const NarrowProduct& product);

}  // namespace cohort
