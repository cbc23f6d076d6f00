#pragma once

// The closures that must run again after a restore. A closure is *done* when all its pushes are
// applied and *durable* when a committed checkpoint covers the closure. Until the closure is
// durable, the log keeps its record: the closure with its arguments and the handle to its first
// result. Pure state: no threads, no calls.
//
//   admitted -> done -> durable (CommitCut), or dropped (it failed, was cancelled, changes nothing)
//
// The watermark is the durable point: every closure with a lower id has ended for good, even after
// a restore.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "coordinator/schedule/closure.h"

namespace cohort {

// The closures that a checkpoint covers: those that were done before its first ps took its
// snapshot.
struct Cut {
  struct Covered {
    ClosureId id;
    // The result of the closure's first run; nullptr if nobody holds the result.
    std::shared_ptr<RemoteValueState> result;
    size_t steps = 1;
  };
  std::vector<Covered> covered;  // ascending by id; closures that no earlier checkpoint covers
  std::vector<ClosureId> open;  // ascending; admitted closures that are neither covered nor durable
  ClosureId next;               // the first id that no closure has yet
  bool Covers(ClosureId id) const;
  // The watermark of the parameter servers' logs in this cut: once the cut is committed, every
  // closure below the watermark is durable.
  ClosureId watermark;
};

// Thread-compatible.
class RedoLog {
 public:
  // Makes a log that holds closures with `steps_max` steps together; the last closure may exceed
  // the limit. With 0 the log keeps nothing, and nothing can run again.
  explicit RedoLog(size_t steps_max) : steps_max_(steps_max) {}

  bool IsOn() const { return steps_max_ > 0; }
  bool HasRoom() const { return !IsOn() || steps_ < steps_max_; }
  size_t size() const { return records_.size(); }

  void Admit(std::shared_ptr<Closure> closure);
  void MarkDone(ClosureId id);
  // Drops the record of a closure that will not run again, not even after a restore.
  void Drop(ClosureId id);

  // Begins a cut; `next` is the id that the next admitted closure gets.
  Cut BeginCut(ClosureId next) const;
  // Makes the closures that the cut covers durable, and drops their records.
  void CommitCut(const Cut& cut);

  // Returns the id of the oldest closure that is not durable, or `next` if there is none.
  ClosureId Watermark(ClosureId next) const;

  // Returns the done closures in the order of their ids, to be queued again; they no longer count
  // as done. If errors have ended some closures of an applied round, the round from now on needs
  // only as many closures as are left.
  std::vector<std::shared_ptr<Closure>> TakeDone();

  // Aborts unless `steps_` is the sum of the steps of all records, and every done closure has a
  // record.
  void CheckInvariants() const;

 private:
  void ShrinkRounds();

  const size_t steps_max_;
  size_t steps_ = 0;  // the sum of the steps of records_
  std::map<ClosureId, std::shared_ptr<Closure>> records_;
  std::set<ClosureId> done_;  // ids of done closures; a subset of records_
  uint64_t durable_round_ = 0;
};

}  // namespace cohort
