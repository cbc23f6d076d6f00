#pragma once

// Matrix products with at most kNarrowMax columns. The kernel of a library such as oneDNN computes
// as many columns at once as a register has floats; with so few columns it would use only a part of
// each register. The two loops of this header read the large matrix once, in order. They are
// compiled for several instruction sets (common/runtime/kernel/simd.h) and add in the same order on
// all of them.

#include <cstdint>

namespace cohort {

inline constexpr int64_t kNarrowMax = 4;

// A product of float matrices, stored row by row. b is [depth, columns], and out is [rows,
// columns]. All extents are positive, and `columns` is at most kNarrowMax. The output overlaps no
// input.
struct NarrowProduct {
  const float* a;
  const float* b;
  float* out;
  int64_t rows;
  int64_t depth;
  int64_t columns;
};

// Computes out = a * b for a matrix `a` of shape [rows, depth].
void NarrowLoop(const NarrowProduct& product);
// Computes out = (transpose of a) * b for a matrix `a` of shape [depth, rows].
void NarrowLoopOfTransposed(const NarrowProduct& product);

}  // namespace cohort
