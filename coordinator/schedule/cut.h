#pragma once

// A cut: the point in a job that a checkpoint saves. A closure is in the cut or not, in all slices
// alike (redo_log.h).

#include <cstddef>
#include <memory>
#include <vector>

#include "coordinator/schedule/closure_request.h"
#include "coordinator/schedule/remote_value.h"

namespace cohort {

// The closures that a checkpoint covers: those that were done before the first parameter server
// took its snapshot for the checkpoint.
struct Cut {
  struct Covered {
    ClosureId id;
    // The RemoteValueState of the closure's first run, or null if no caller holds the closure's
    // result.
    std::shared_ptr<RemoteValueState> result;
    size_t steps = 1;
  };
  std::vector<Covered> covered;  // covered closures by ascending id; no earlier cut covers them
  // The ids of admitted closures that are neither covered nor durable, in ascending order.
  std::vector<ClosureId> open;
  ClosureId next;  // the lowest id that no closure has yet
  bool Covers(ClosureId id) const;
  // The id below which every closure is durable once the cut is committed. Parameter servers save
  // it as their watermark in this checkpoint.
  ClosureId watermark;
};

}  // namespace cohort
