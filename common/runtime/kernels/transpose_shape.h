#pragma once

// Axes of Transpose. Axes of extent 1 are dropped, and axes that are neighbours both in the input
// and in the result are merged into one. So most transpositions become transpositions of matrices,
// or only change the shape without moving an element.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct TransposeParameters {
  std::vector<int64_t> perm;
  bool given = false;
};
TransposeParameters ParseTranspose(AttributeReader& reader);

struct TransposeShape {
  struct Axis {
    int64_t size = 1;
    int64_t stride = 1;  // the axis's stride in the input
  };
  Shape result;
  std::vector<Axis> axes;  // the merged axes of the result; empty if no element moves
};
// Returns the shape of a transposition's result, and the merged axes. Errors: INVALID_ARGUMENT for
// a perm that is not a permutation of the input's axes.
absl::StatusOr<TransposeShape> ResolveTranspose(const Shape& input,
                                                const TransposeParameters& parameters);

}  // namespace cohort
