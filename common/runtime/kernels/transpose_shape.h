#pragma once

// Transpose's axes. Axes of one element move freely, and neighbours that stay neighbours move as
// one; so what is left of most transpositions is to turn matrices over, or nothing at all.

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
    int64_t stride = 1;  // stride in the input
  };
  Shape result;
  std::vector<Axis> axes;  // the result's axes, merged; none if no element moves
};
// Errors: INVALID_ARGUMENT for a perm that is none of the input's axes.
absl::StatusOr<TransposeShape> ResolveTranspose(const Shape& input,
                                                const TransposeParameters& parameters);

}  // namespace cohort
