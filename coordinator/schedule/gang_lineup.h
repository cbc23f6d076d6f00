#pragma once

// The order of gang closures, which a worker keeps (worker/gang_line.h): each that is sent gets the
// next place in a generation. When one of them does not end well, the worker refuses those behind
// it; so nothing more is sent until all that were have come back, and then a new generation begins
// with the oldest closure that is not done. A gang never runs before an older one is done.

#include <cstdint>
#include <set>

#include "coordinator/schedule/closure.h"
#include "proto/worker.pb.h"

namespace cohort {

// Thread-compatible.
class GangLineup {
 public:
  // Whether the oldest gang may be sent now.
  bool IsOpen() const { return !broken_ || sent_.empty(); }
  // It is sent.
  proto::Gang Send(ClosureId id);
  // It has come back.
  void End(ClosureId id, bool done);
  // What was sent is taken back, whatever becomes of it.
  void TakeBack();

 private:
  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool broken_ = true;  // the next one begins a generation
  std::set<ClosureId> sent_;
};

}  // namespace cohort
