#pragma once

// The queue of closures, as a pure state machine: no threads, no calls. An in-flight closure keeps
// its place under the bound, so putting it back never waits. The first error wins and is kept until
// somebody observes it, with the texts of those that followed.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// Thread-compatible.
class ClosureQueue {
 public:
  // Makes a queue; `bound` limits waiting, queued and in flight together.
  explicit ClosureQueue(size_t bound);

  // Returns whether the queue takes more. A queue that was full has room again when an eighth of it
  // is free, so that waiting callers come in batches: to wake one for each closure that ends costs
  // half of the throughput.
  bool HasRoom() const { return !is_full_ && unfinished_.size() < bound_; }
  bool IsIdle() const { return unfinished_.empty(); }
  size_t queued() const { return queue_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t in_flight() const { return unfinished_.size() - queue_.size() - waiting_.size(); }

  // Gives the closure its id, gives its further steps the ids after that, and queues it. There must
  // be room.
  ClosureId Put(std::shared_ptr<Closure> closure);
  // Puts a closure that waits for MakeReady before it is queued.
  ClosureId PutWaiting(std::shared_ptr<Closure> closure);
  // Returns nullptr if the closure does not wait (any more).
  Closure* FindWaiting(ClosureId id) const;
  void MakeReady(ClosureId id);
  // Finds a closure that waits or is queued; nullptr for another one.
  const Closure* FindQueued(ClosureId id) const;
  // Puts the oldest queued closure in flight; returns nullptr if none is queued.
  std::shared_ptr<Closure> Take();
  // Removes a closure, which ends without a result. Returns nullptr if it neither waits nor is
  // queued (any more).
  std::shared_ptr<Closure> RemoveQueued(ClosureId id);
  // Puts a closure back to the front: it is older than all that wait.
  void PutBack(ClosureId id);
  void MarkDone(ClosureId id);
  // Ends the closure with an error; the first one is recorded.
  void MarkFailed(ClosureId id, const absl::Status& error);
  // Ends the closure because it was cancelled; no error is recorded.
  void MarkCancelled(ClosureId id);
  // Records an error that no closure reported; the first one wins, as in MarkFailed.
  void RecordError(const absl::Status& error);
  // Queues a closure that was done before a restore to run again, under its id and whether there is
  // room or not. Until it ends, however it ends, it is a replay: nothing cancels it.
  void PutAgain(std::shared_ptr<Closure> closure);
  size_t replays() const { return replays_.size(); }
  bool IsReplay(ClosureId id) const { return replays_.count(id) > 0; }
  bool HasQueuedReplay() const;
  // Returns the closure that Take returns next, or nullptr.
  const Closure* Front() const { return queue_.empty() ? nullptr : queue_.front().get(); }
  // Makes all steps of all closures run again.
  void ForgetSteps();
  // Forgets which closures are replays.
  void ForgetReplays() { replays_.clear(); }
  // Notes that a worker process may have ended with the closure: it is among Struck() until it
  // ends, and its record hears what becomes of worker processes.
  void Strike(ClosureId id) { struck_.insert(id); }
  std::vector<std::shared_ptr<Closure>> Struck() const;
  void OnGivenUp(const proto::TaskRef& process);
  void OnServing(const proto::TaskRef& process);
  // Removes every waiting and queued closure but replays, and returns them.
  std::vector<std::shared_ptr<Closure>> CancelQueued();

  bool HasError() const { return !error_.ok(); }
  // Returns the first error; its message ends with the other ones, each text once and not too many.
  absl::Status TakeError();

  // Returns the watermark: every closure below it has ended.
  ClosureId watermark() const;
  // Returns the id of the closure that is put next.
  ClosureId next_id() const { return ClosureId{last_id_ + 1}; }
  // Gives the next closure this id. Only grows.
  void SkipTo(ClosureId next);

  // Aborts unless each closure has one place, and what is counted of closures is about such that
  // have not ended.
  void CheckInvariants() const;

 private:
  ClosureId Admit(const std::shared_ptr<Closure>& closure);
  // Ends whatever is counted of a closure.
  void Finish(ClosureId id);

  const size_t bound_;
  bool is_full_ = false;
  uint64_t last_id_ = 0;
  std::deque<std::shared_ptr<Closure>> queue_;
  std::map<ClosureId, std::shared_ptr<Closure>> unfinished_;  // all of them
  std::map<ClosureId, std::shared_ptr<Closure>> waiting_;
  std::set<ClosureId> replays_, struck_;  // subsets of unfinished_
  absl::Status error_;
  std::vector<std::string> other_errors_;
  bool errors_left_out_ = false;
};

}  // namespace cohort
