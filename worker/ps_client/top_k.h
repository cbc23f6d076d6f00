#pragma once

// The largest elements of a gradient, and what is left of it. What a push leaves out is not lost:
// it is added to the next gradient of the same slice (error feedback), so that over many pushes
// the sum of what was sent is the sum of the gradients but for what is still left.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Positions, ascending, of the `count` elements of the largest size; of equal ones the first. NaN
// is larger than everything, so that it is not hidden. `count` is at most the number of elements.
std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count);

struct TopK {
  Tensor positions;  // int32[count]
  Tensor values;     // [count], of the type that they travel in
  // The rest if the push is applied: all of the sum but what the push carries, including what 16
  // bits of a value do not hold.
  std::vector<float> left_if_taken;
  // The rest if it is unknown whether the push was applied: of the residual alone what the push
  // does not carry, because the gradient comes again with the closure. Empty: nothing.
  std::vector<float> left_otherwise;
};

// Returns the `count` largest elements of the sum of gradient and residual (empty: zeros) as
// `dtype`, which is float32, float16 or bfloat16.
TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype);

}  // namespace cohort
