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
  // bound: waiting, queued and in flight together.
  explicit ClosureQueue(size_t bound);

  // A queue that was full has room again when an eighth of it is free, so that callers who wait for
  // it come in batches: to wake one for each closure that ends costs half of the throughput.
  bool HasRoom() const { return !is_full_ && unfinished_.size() < bound_; }
  bool IsIdle() const { return unfinished_.empty(); }
  size_t queued() const { return queue_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t in_flight() const { return unfinished_.size() - queue_.size() - waiting_.size(); }

  // Gives the closure its id, and to each of its steps one behind it, and queues it. Needs room.
  ClosureId Put(std::shared_ptr<Closure> closure);
  // As Put, but it waits for MakeReady before it is queued.
  ClosureId PutWaiting(std::shared_ptr<Closure> closure);
  // nullptr when it does not wait (any more).
  Closure* FindWaiting(ClosureId id) const;
  void MakeReady(ClosureId id);
  // Of those that wait or are queued; nullptr for another one.
  const Closure* FindQueued(ClosureId id) const;
  // The oldest queued closure becomes in flight; nullptr when none is queued.
  std::shared_ptr<Closure> Take();
  // nullptr when the closure neither waits nor is queued (any more); else it has ended without a
  // result.
  std::shared_ptr<Closure> RemoveQueued(ClosureId id);
  // Back to the front: it is older than all that wait.
  void PutBack(ClosureId id);
  void MarkDone(ClosureId id);
  // The closure ended with an error; the first one is recorded.
  void MarkFailed(ClosureId id, const absl::Status& error);
  // The closure ended because it was cancelled; no error is recorded.
  void MarkCancelled(ClosureId id);
  // An error that no closure reported; the first one wins, as in MarkFailed.
  void RecordError(const absl::Status& error);
  // A closure that was done before a restore is to run again, under its id and whether there is
  // room or not. Until it ends, however it ends, it is a replay: nothing cancels it.
  void PutAgain(std::shared_ptr<Closure> closure);
  size_t replays() const { return replays_.size(); }
  bool IsReplay(ClosureId id) const { return replays_.count(id) > 0; }
  bool HasQueuedReplay() const;
  // The next one that Take gives; nullptr when none is queued.
  const Closure* Front() const { return queue_.empty() ? nullptr : queue_.front().get(); }
  // All steps of all closures run again.
  void ForgetSteps();
  // No closure is a replay any more.
  void ForgetReplays() { replays_.clear(); }
  // A worker process may have ended with the closure: it is among Struck() until it ends, and its
  // record hears what becomes of worker processes.
  void Strike(ClosureId id) { struck_.insert(id); }
  std::vector<std::shared_ptr<Closure>> Struck() const;
  void OnGivenUp(const proto::TaskRef& process);
  void OnServing(const proto::TaskRef& process);
  // Removes every waiting and queued closure but replays, and returns them.
  std::vector<std::shared_ptr<Closure>> CancelQueued();

  bool HasError() const { return !error_.ok(); }
  // The first error; its message ends with the other ones, each text once and not too many.
  absl::Status TakeError();

  // Every closure below has ended.
  ClosureId watermark() const;
  // The id of the closure that is put next.
  ClosureId next_id() const { return ClosureId{last_id_ + 1}; }
  // The next closure gets this id. Only grows.
  void SkipTo(ClosureId next);

 private:
  ClosureId Admit(const std::shared_ptr<Closure>& closure);
  // Whatever is counted of a closure ends here.
  void Finish(ClosureId id);

  const size_t bound_;
  bool is_full_ = false;
  uint64_t last_id_ = 0;
  std::deque<std::shared_ptr<Closure>> queue_;
  std::map<ClosureId, std::shared_ptr<Closure>> unfinished_;  // all of them
  std::map<ClosureId, std::shared_ptr<Closure>> waiting_;
  std::set<ClosureId> replays_, struck_;  // of unfinished_
  absl::Status error_;
  std::vector<std::string> other_errors_;
  bool errors_left_out_ = false;
};

}  // namespace cohort
