#pragma once

// The closures that must run again after a restore. A closure is *done* when all its pushes are
// applied and *durable* when a committed checkpoint covers it. Until then its record stays here:
// the closure with its arguments and the place of its first result. Pure state: no threads, no
// calls.
//
//   admitted -> done -> durable (CommitCut), or dropped (it failed, was cancelled, changes nothing)
//
// The watermark is the durable point: every closure below has ended for good, also after a restore.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "coordinator/schedule/closure.h"

namespace cohort {

// Closures that a checkpoint covers: those that were done before its first ps took its snapshot.
struct Cut {
  struct Covered {
    ClosureId id;
    std::shared_ptr<RemoteValueState> result;  // that of the first run; nullptr if nobody holds it
    size_t steps = 1;
  };
  std::vector<Covered> covered;  // ascending; not durable before
  std::vector<ClosureId> open;   // ascending; admitted, and neither covered nor durable
  ClosureId next;                // given to no closure yet
  bool Covers(ClosureId id) const;
  // The watermark of the parameter servers' logs in this cut: every closure below it is durable
  // once the cut is committed.
  ClosureId watermark;
};

// Thread-compatible.
class RedoLog {
 public:
  // Makes a log; steps_max limits the steps of the closures that are held; the last one may exceed
  // it. 0: nothing is kept and nothing can run again.
  explicit RedoLog(size_t steps_max) : steps_max_(steps_max) {}

  bool IsOn() const { return steps_max_ > 0; }
  bool HasRoom() const { return !IsOn() || steps_ < steps_max_; }
  size_t size() const { return records_.size(); }

  void Admit(std::shared_ptr<Closure> closure);
  void MarkDone(ClosureId id);
  // Drops a closure, which will not run again whatever happens.
  void Drop(ClosureId id);

  // Begins a cut; `next` is the id of the closure that is admitted next.
  Cut BeginCut(ClosureId next) const;
  // Makes durable what the cut covers.
  void CommitCut(const Cut& cut);

  // Returns the oldest closure that is not durable, or `next`.
  ClosureId Watermark(ClosureId next) const;

  // Takes done closures in the order of their ids; they are no longer done and are to be queued
  // again. Errors may have ended some closures of an applied round since: it needs no more than are
  // left.
  std::vector<std::shared_ptr<Closure>> TakeDone();

  // Aborts unless the steps are those of the records, and only recorded closures are done.
  void CheckInvariants() const;

 private:
  void ShrinkRounds();

  const size_t steps_max_;
  size_t steps_ = 0;  // steps in records_
  std::map<ClosureId, std::shared_ptr<Closure>> records_;
  std::set<ClosureId> done_;  // subset of records_
  uint64_t durable_round_ = 0;
};

}  // namespace cohort
