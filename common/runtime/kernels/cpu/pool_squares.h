#pragma once

// Max pooling over squares of two by two elements that meet no others and no padding, which is that
// of most networks. Rows of their outputs are shorter than a vector, so these loops go over whole
// planes, also where no square begins. Float32, compiled for several instruction sets
// (kernels/simd.h); pointers do not overlap.

#include <cstdint>
#include <vector>

#include "common/runtime/kernels/cpu/image_loops.h"

namespace cohort {

bool IsOfSquares(const PlaneWindow& window);

// The work of MaxPoolPlane and MaxPoolGradPlane for a window of squares. Made for one window; its
// scratch serves one plane after another. Not thread-safe.
class SquarePool {
 public:
  explicit SquarePool(const PlaneWindow& window);

  void Max(const float* in, float* out);
  // Writes the rows of dx that squares cover.
  void Gradient(const float* in, const float* dy, float* dx);

 private:
  const int64_t width_;         // width of the input
  const int64_t rows_;          // rows of the output
  const int64_t columns_;       // columns of the output
  std::vector<float> largest_;  // the larger of each element and the next
  // Scratch by places of the input: the gradient of the square that begins there, zero if none
  // does; and the parts of it that go to the square's upper and lower row, which follow a row and
  // an element of zeros.
  std::vector<float> spread_;
  std::vector<float> upper_;
  std::vector<float> lower_;
};

}  // namespace cohort
