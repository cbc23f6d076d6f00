#pragma once

// Sums over contiguous elements that compilers can vectorise. A sum has 16 partial sums (lanes),
// added in the same order on every instruction set; the lanes are added up in double.

#include <cstdint>

#include "common/runtime/kernel/simd.h"

namespace cohort {

inline constexpr int64_t kLanes = 16;

// Returns the sum of term(i) for i in [0, count).
template <typename Term>
COHORT_INLINE double SumLine(int64_t count, Term term) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(term(i));
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace cohort
