#pragma once

// Products of small matrices in row-major order, for update rules that need a matrix as a whole
// (whole_kernels.h). The order of additions does not depend on the instruction set.

#include <cstddef>

namespace cohort {

struct MatrixSize {
  size_t rows;
  size_t columns;
};

// Computes x times its transpose, for x of `size`. `out` has rows x rows elements and does not
// overlap x.
void TimesTransposed(const float* x, MatrixSize size, float* out);

// Adds y x to `out`, where x and `out` are of `size` and y has rows x rows elements. `out` overlaps
// neither of the others.
void AddProduct(const float* y, const float* x, MatrixSize size, float* out);

}  // namespace cohort
