#include "common/runtime/kernels/transpose_shape.h"

namespace cohort {

namespace {

// Returns, for each axis of the transposed result, the number of the input's axis that becomes this
// axis.
absl::StatusOr<std::vector<int>> ResolvePerm(const TransposeParameters& parameters, int rank) {
  std::vector<int> perm;
  if (!parameters.given) {
    // Without the attribute perm, ONNX's Transpose reverses the axes.
    for (int axis = rank - 1; axis >= 0; --axis) perm.push_back(axis);
    return perm;
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t axis : parameters.perm) {
    if (axis < 0 || axis >= rank || seen[static_cast<size_t>(axis)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("perm is not a permutation of ", rank, " axes"));
    }
    seen[static_cast<size_t>(axis)] = true;
    perm.push_back(static_cast<int>(axis));
  }
  if (static_cast<int>(perm.size()) != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("perm has ", perm.size(), " axes, the input ", rank));
  }
  return perm;
}

}  // namespace

TransposeParameters ParseTranspose(AttributeReader& reader) {
  const bool given = reader.Has("perm");
  return {reader.Ints("perm"), given};
}

absl::StatusOr<TransposeShape> ResolveTranspose(const Shape& input,
                                                const TransposeParameters& parameters) {
  const int rank = input.rank();
  ASSIGN_OR_RETURN(const std::vector<int> perm, ResolvePerm(parameters, rank));
  std::vector<int64_t> strides(static_cast<size_t>(rank), 1);
  for (int axis = rank - 2; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] =
        strides[static_cast<size_t>(axis) + 1] * input.dim(axis + 1);
  }
  TransposeShape shape;
  std::vector<int64_t> dims;
  for (const int axis : perm) {
    const int64_t size = input.dim(axis);
    const int64_t stride = strides[static_cast<size_t>(axis)];
    dims.push_back(size);
    if (size == 1) continue;
    // In the input, this axis follows the previous axis of the result without a gap, so the two
    // axes are merged.
    if (!shape.axes.empty() && shape.axes.back().stride == size * stride) {
      shape.axes.back() = {shape.axes.back().size * size, stride};
    } else {
      shape.axes.push_back({size, stride});
    }
  }
  // With only one merged axis, all elements keep their order and none has to move.
  if (shape.axes.size() == 1) shape.axes.clear();
  shape.result = Shape(absl::MakeConstSpan(dims));
  return shape;
}

}  // namespace cohort
