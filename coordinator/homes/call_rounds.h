#pragma once

// The grouping of a variable's slices into calls, if each home is called several times because one
// call moves no more than kCallBytesMax (common/wire/frame_limits.h).

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

// A slice, or what goes to or comes from it.
struct SliceLoad {
  size_t home = 0;  // position among the homes
  size_t bytes = 0;
};

// Returns the slices, by their places in `slices`, of each round of calls: in every round each home
// has at most `bytes_max` of them, or a single one. The slices of a home keep their order. Without
// slices there is one round, an empty one.
std::vector<std::vector<size_t>> CallRounds(absl::Span<const SliceLoad> slices, size_t bytes_max);

}  // namespace cohort
