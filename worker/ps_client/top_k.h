#pragma once

// Selects the largest elements of a gradient and keeps the rest. What a push leaves out is not
// lost: it is added to the next gradient of the same slice (error feedback). Over many pushes, the
// sum of what was sent is the sum of the gradients minus the present rest.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Returns the positions, ascending, of the `count` elements with the largest absolute values. Among
// equal values, earlier elements come first. NaN counts as larger than every number, so that NaN is
// sent and not hidden. `count` is at most the number of elements.
std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count);

// The elements that a push carries, and the rest of the slice.
struct TopK {
  Tensor positions;  // int32[count] positions in the slice
  Tensor values;     // [count] values, in the type in which they travel
  // The rest if the push is applied: the sum minus what the push carries. The rest includes what a
  // 16-bit value cannot hold.
  std::vector<float> left_if_taken;
  // The rest if it is unknown whether the push was applied: the part of the residual that the push
  // does not carry. The gradient itself is not kept, because it is computed again with the closure.
  // Empty: there is no rest.
  std::vector<float> left_otherwise;
};

// Returns the `count` largest elements of gradient + residual as `dtype`, which is float32, float16
// or bfloat16. An empty residual counts as zeros.
TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype);

}  // namespace cohort
