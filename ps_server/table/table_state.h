#pragma once

// The state of a dynamic table beside its rows: the table's time, the sights of keys that have no
// row yet, and the place where the search for expired rows continues. A copy of a table that has
// rows and this state treats every later step as the table itself does.

#include <cstdint>

#include "common/tensor/tensor.h"
#include "ps_server/table/sight_counts.h"
#include "ps_server/table/step_clock.h"

namespace cohort {

struct TableState {
  StepClock clock;
  // The fields of each stripe, int64[kStripes, 2]: the number of sights in the current generation,
  // and the hash at which the search for expired rows continues (the bits of a uint64).
  Tensor stripes;
  // The sight counters, uint8[kStripes, 2, kCounters], of the current and of the last generation.
  // No elements: no key was seen.
  Tensor sights;

  static constexpr int64_t kStripes = 16;
  static Shape StripesShape() { return Shape{kStripes, 2}; }
  static Shape SightsShape() {
    return Shape{kStripes, 2, static_cast<int64_t>(SightCounts::kCounters)};
  }
};

}  // namespace cohort
