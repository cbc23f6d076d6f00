#pragma once

// The grouping of a variable's slices into rounds of calls. Each home is called several times
// because one call carries no more than kCallBytesMax (common/wire/frame_limits.h).

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

// The bytes that a call carries for one slice, to or from its home.
struct SliceLoad {
  size_t home = 0;  // position of the home among the homes
  size_t bytes = 0;
};

// Returns one list of slices per round of calls; a slice is given by its place in `slices`. In
// every round each home has at most `bytes_max` bytes, or a single slice. The slices of a home keep
// their order. Without slices there is one empty round.
std::vector<std::vector<size_t>> CallRounds(absl::Span<const SliceLoad> slices, size_t bytes_max);

}  // namespace cohort
