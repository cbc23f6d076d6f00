#pragma once

// Max pooling over squares of two by two elements that neither overlap nor touch padding, as most
// networks have it. Rows of the output are shorter than a vector register, so these loops run over
// whole planes, including elements at which no square begins. They compute float32 and are compiled
// for several instruction sets (common/runtime/kernel/simd.h); pointers do not overlap.

#include <cstdint>
#include <vector>

#include "common/runtime/kernels/cpu/image_loops.h"

namespace cohort {

bool IsOfSquares(const PlaneWindow& window);

// Max pooling and its gradient for windows of two by two elements; it replaces MaxPoolPlane and
// MaxPoolGradPlane (image_loops.h). An object is made for one window and reuses its scratch memory
// from plane to plane. Not thread-safe.
class SquarePool {
 public:
  explicit SquarePool(const PlaneWindow& window);

  void Max(const float* in, float* out);
  // Writes dx in all rows of the plane in which a square lies; other rows stay untouched.
  void Gradient(const float* in, const float* dy, float* dx);

 private:
  const int64_t width_;         // columns of the input
  const int64_t rows_;          // rows of the output
  const int64_t columns_;       // columns of the output
  std::vector<float> largest_;  // the larger of each element and the element after it
  // Scratch memory with one number for each element of the input. `spread_` holds the gradient of a
  // square at the square's first element, and zero elsewhere. `upper_` and `lower_` hold the part
  // of that gradient that goes to the square's upper and lower row; both begin with zeros for one
  // row and one element.
  std::vector<float> spread_;
  std::vector<float> upper_;
  std::vector<float> lower_;
};

}  // namespace cohort
