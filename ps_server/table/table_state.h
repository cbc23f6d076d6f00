#pragma once

// The state that decides about a table's keys and rows beside the rows themselves: its time, the
// sights of keys that have no row yet, and where the search for expired rows goes on. A copy of a
// table that has this state too treats every later step as the table itself does.

#include <cstdint>

#include "common/tensor/tensor.h"
#include "ps_server/table/sight_counts.h"
#include "ps_server/table/step_clock.h"

namespace cohort {

struct TableState {
  StepClock clock;
  // int64[kStripes, 2]: sights in the current generation; the hash at which the search for expired
  // rows goes on (bits of a uint64).
  Tensor stripes;
  // uint8[kStripes, 2, kCounters]: the counters of the current generation and of the one before.
  // No elements: no key was seen.
  Tensor sights;

  static constexpr int64_t kStripes = 16;
  static Shape StripesShape() { return Shape{kStripes, 2}; }
  static Shape SightsShape() {
    return Shape{kStripes, 2, static_cast<int64_t>(SightCounts::kCounters)};
  }
};

}  // namespace cohort
