#include "common/runtime/kernels/broadcast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// Returns the extent of `shape` along axis `axis` of a broadcast result of rank `rank`; 1 if
// `shape` does not have the axis.
int64_t Extent(const Shape& shape, int axis, int rank) {
  const int own = axis - (rank - shape.rank());
  return own < 0 ? 1 : shape.dim(own);
}

}  // namespace

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  absl::InlinedVector<int64_t, 4> dims(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size_a = Extent(a, axis, rank);
    const int64_t size_b = Extent(b, axis, rank);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast"));
    }
    dims[static_cast<size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  return Shape(absl::MakeConstSpan(dims));
}

std::vector<BroadcastAxis> BroadcastAxes(const Shape& a, const Shape& b, const Shape& result) {
  // The merged axes, from innermost to outermost until they are reversed at the end.
  std::vector<BroadcastAxis> axes;
  int64_t stride_a = 1;
  int64_t stride_b = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int64_t size = result.dim(axis);
    const int64_t size_a = Extent(a, axis, result.rank());
    const int64_t size_b = Extent(b, axis, result.rank());
    // An axis of extent 1 is skipped, because it needs no loop.
    if (size == 1) continue;
    const BroadcastAxis next = {size, size_a == 1 ? 0 : stride_a, size_b == 1 ? 0 : stride_b};
    stride_a *= size_a;
    stride_b *= size_b;
    // Merges the axis with the next inner axis if, in both inputs, one step along the axis equals a
    // full pass over the inner axis.
    if (!axes.empty()) {
      BroadcastAxis& last = axes.back();
      if (next.stride_a == last.stride_a * last.size &&
          next.stride_b == last.stride_b * last.size) {
        last.size *= size;
        continue;
      }
    }
    axes.push_back(next);
  }
  if (axes.empty()) axes.push_back({1, 0, 0});
  std::reverse(axes.begin(), axes.end());
  return axes;
}

}  // namespace cohort
