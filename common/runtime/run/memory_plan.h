#pragma once

// The plan by which the values of a run share one arena (one block of memory). A value lives from
// the node that writes it to the last node that reads it. Two values whose lives overlap get
// disjoint bytes; all other pairs may share bytes. The largest value is placed first, and each
// value gets the lowest free offset. On training graphs the arena is at most a few per cent larger
// than the sum of the values that live at the same time, which is the lower bound. The plan depends
// only on the lives and sizes of the values.

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

struct LiveRange {
  size_t bytes = 0;
  int first = 0;  // index of the node that writes the value
  int last = 0;   // index of the last node that reads the value, at least `first`
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one offset per live range, each a multiple of 64
  size_t arena_bytes = 0;
};

MemoryPlan PlanMemory(absl::Span<const LiveRange> ranges);

}  // namespace cohort
