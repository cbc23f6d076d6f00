#pragma once

// The log of closures that must run again after a restore. A closure is *done* when all its pushes
// are applied, and *durable* when a committed checkpoint covers it. The log keeps the record of a
// closure (the closure with its arguments and the handle to its result) until the closure is
// durable. Pure state: no threads, no calls.
//
//   admitted -> done -> durable (CommitCut), or dropped (it failed, was cancelled, changes nothing)
//
// The log's watermark is the lowest id that is not durable or dropped: every closure below it has
// ended for good, even after a restore.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "coordinator/schedule/closure.h"
#include "coordinator/schedule/cut.h"

namespace cohort {

// The redo log of one scheduler. Thread-compatible.
class RedoLog {
 public:
  // Makes a log for closures with `steps_max` steps in total; only the last closure may exceed that
  // number. If `steps_max` is 0, the log keeps nothing, and no closure can run again after a
  // restore.
  explicit RedoLog(size_t steps_max) : steps_max_(steps_max) {}

  bool IsOn() const { return steps_max_ > 0; }
  bool HasRoom() const { return !IsOn() || steps_ < steps_max_; }
  size_t size() const { return records_.size(); }

  void Admit(std::shared_ptr<Closure> closure);
  void MarkDone(ClosureId id);
  // Drops the record of a closure that will not run again, because it has failed, was cancelled or
  // changes no variable.
  void Drop(ClosureId id);

  // Returns the cut of a checkpoint that begins now; `next` is the id that the next admitted
  // closure will get.
  Cut BeginCut(ClosureId next) const;
  // Drops the records of the closures that the cut covers, because they are now durable.
  void CommitCut(const Cut& cut);

  // Returns the id of the oldest closure that is not durable, or `next` if there is none.
  ClosureId Watermark(ClosureId next) const;

  // Returns the done closures in the order of their ids, to be queued again. They no longer count
  // as done. If errors have ended some closures of a round that was applied, `aggregate` of the
  // round is reduced to the number of closures that are left.
  std::vector<std::shared_ptr<Closure>> TakeDone();

  // Aborts unless `steps_` is the sum of the steps of all recorded closures, and every done closure
  // has a record.
  void CheckInvariants() const;

 private:
  void ShrinkRounds();

  const size_t steps_max_;
  size_t steps_ = 0;  // the sum of the steps of all recorded closures
  std::map<ClosureId, std::shared_ptr<Closure>> records_;
  std::set<ClosureId> done_;  // ids of done closures, all of which have records
  uint64_t durable_round_ = 0;
};

}  // namespace cohort
