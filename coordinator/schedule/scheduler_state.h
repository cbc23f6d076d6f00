#pragma once

// Parts of a scheduler's state that change together.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "coordinator/schedule/closure.h"

namespace cohort {

// Whether an attempt ended without its worker saying so since the last fence.
enum class Fence { kNotNeeded, kNeeded, kUnderWay };

struct ErrorFence {
  Fence state = Fence::kNotNeeded;
  uint64_t round = 0;  // so many were begun
};

// Of the checkpoint that is being taken, or comes next.
struct SnapshotState {
  std::optional<ClosureId> before;  // while they are taken: only these run
  ClosureId watermark;              // of their cut; no push is above it
  size_t done_since = 0;            // steps since the last ones; what a checkpoint is due for
  bool asked = false;               // for a checkpoint, since the last ones
};

}  // namespace cohort
