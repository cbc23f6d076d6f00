#pragma once

// Places values in one arena. A value lives from the node that writes it to the last node that
// reads it; two values whose lives overlap get disjoint bytes, others may share. Largest first,
// each at the lowest free offset: within a few per cent of the lower bound on training graphs, and
// the same plan for the same input everywhere.

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

struct LiveRange {
  size_t bytes = 0;
  int first = 0;  // node that writes it
  int last = 0;   // last node that reads it, at least `first`
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one per range; multiples of 64
  size_t arena_bytes = 0;
};

MemoryPlan PlanMemory(absl::Span<const LiveRange> ranges);

}  // namespace cohort
