#pragma once

// The order of gang closures, which a worker keeps (worker/gang_line.h): each that is sent gets the
// next place in a generation. When one of them does not end well, the worker refuses those behind
// it; so nothing more is sent until all that were have come back, and then a new generation begins
// with the oldest closure that is not done. A gang never runs before an older one is done.
//
// Gangs of several workers run on those that are in step (coordinator/recovery/copies.h). Who is
// comes and goes between two generations. A copy of variables is made while gangs are held.

#include <cstdint>
#include <set>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "coordinator/schedule/closure.h"
#include "proto/worker.pb.h"

namespace cohort {

// Thread-compatible.
class GangLineup {
 public:
  // Whether the oldest gang may be sent now.
  bool IsOpen() const { return !held_ && (!broken_ || sent_.empty()); }
  // It is sent.
  proto::Gang Send(ClosureId id);
  // It has come back.
  void End(ClosureId id, bool done);
  // What was sent is taken back, whatever becomes of it.
  void TakeBack();

  // By which pushes of the gangs that are sent now are fenced: a generation ends as a whole. Above
  // all sessions of lanes.
  uint64_t session() const { return (uint64_t{1} << 63) | generation_; }

  void OutOfStep(int worker);
  void InStep(int worker);
  void AllInStep() { out_of_step_.clear(); }
  bool IsInStep(int worker) const { return out_of_step_.count(worker) == 0; }
  size_t num_out_of_step() const { return out_of_step_.size(); }

  // Nothing is sent from now on.
  using Held = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Held held);
  void Release();
  // What Hold was given, once, when nothing that was sent is left.
  Held TakeHeld();

 private:
  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool broken_ = true;  // the next one begins a generation
  std::set<ClosureId> sent_;
  std::set<int> out_of_step_;
  bool held_ = false;
  Held on_held_;
};

}  // namespace cohort
