#pragma once

// Limits of the tensors that a job file may ask for.

#include <cstddef>
#include <cstdint>

namespace cohort {

// Upper bounds of one dimension, of the number of dimensions of an example, and of the number of
// elements of one example or one variable.
inline constexpr int64_t kDimMax = int64_t{1} << 24;
inline constexpr size_t kRankMax = 8;
inline constexpr int64_t kElementsMax = int64_t{1} << 31;

}  // namespace cohort
