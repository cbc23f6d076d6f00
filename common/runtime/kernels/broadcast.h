#pragma once

// ONNX's broadcasting, which is NumPy's, for two inputs. Shapes are aligned at the last axis, and
// an axis of extent 1 is repeated. Neighbouring axes through which both inputs step in the same way
// are merged, so the innermost loop is as long as possible.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/shape.h"

namespace cohort {

// Returns the shape to which a and b broadcast. Errors: INVALID_ARGUMENT naming both shapes.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

// One or several neighbouring axes of the result, merged into one. A stride of 0 repeats the input
// along this axis; the strides of the innermost axis are 0 or 1.
struct BroadcastAxis {
  int64_t size = 1;
  int64_t stride_a = 0;
  int64_t stride_b = 0;
};

// Returns the merged axes of the broadcast of a and b to `result`, at least one axis. Both a and b
// must broadcast to `result`.
std::vector<BroadcastAxis> BroadcastAxes(const Shape& a, const Shape& b, const Shape& result);

// Calls run(a_offset, b_offset, out_offset) for each contiguous run of axes.back().size elements of
// the result, along the innermost axis.
template <typename Run>
void ForEachRun(const std::vector<BroadcastAxis>& axes, Run&& run) {
  for (const BroadcastAxis& axis : axes) {
    if (axis.size == 0) return;
  }
  const size_t outer = axes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  int64_t a = 0;
  int64_t b = 0;
  for (int64_t out = 0;; out += axes.back().size) {
    run(a, b, out);
    size_t axis = outer;
    while (axis > 0) {
      const BroadcastAxis& current = axes[axis - 1];
      a += current.stride_a;
      b += current.stride_b;
      if (++index[axis - 1] < current.size) break;
      a -= current.stride_a * current.size;
      b -= current.stride_b * current.size;
      index[--axis] = 0;
    }
    if (axis == 0) return;
  }
}

}  // namespace cohort
