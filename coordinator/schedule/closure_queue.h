#pragma once

// The queue of closures, as a pure state machine: no threads, no calls. A closure in flight still
// counts towards the queue's bound, so putting the closure back never waits. The first error wins:
// the queue keeps the first error, with the texts of later errors, until a caller observes it.

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
  // Makes a queue; `bound` limits the sum of waiting, queued and in-flight closures.
  explicit ClosureQueue(size_t bound);

  // Returns whether the queue takes another closure. A queue that was full has room again when an
  // eighth of the bound is free, so that waiting callers come in batches: waking one caller for
  // each closure that ends costs half of the throughput.
  bool HasRoom() const { return !is_full_ && unfinished_.size() < bound_; }
  bool IsIdle() const { return unfinished_.empty(); }
  size_t queued() const { return queue_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t in_flight() const { return unfinished_.size() - queue_.size() - waiting_.size(); }

  // Queues the closure. The closure gets the next id, and its later steps the ids after that.
  // HasRoom() must be true.
  ClosureId Put(std::shared_ptr<Closure> closure);
  // Admits a closure that waits until MakeReady queues it.
  ClosureId PutWaiting(std::shared_ptr<Closure> closure);
  // Returns the closure if it waits for arguments, else nullptr.
  Closure* FindWaiting(ClosureId id) const;
  void MakeReady(ClosureId id);
  // Returns the closure if it waits or is queued, else nullptr.
  const Closure* FindQueued(ClosureId id) const;
  // Puts the oldest queued closure in flight; returns nullptr if none is queued.
  std::shared_ptr<Closure> Take();
  // Removes and returns a waiting or queued closure, which ends without a result. Returns nullptr
  // if the closure neither waits nor is queued.
  std::shared_ptr<Closure> RemoveQueued(ClosureId id);
  // Puts a closure back into the queue before all younger closures.
  void PutBack(ClosureId id);
  void MarkDone(ClosureId id);
  // Ends the closure with an error, and records the error.
  void MarkFailed(ClosureId id, const absl::Status& error);
  // Ends the closure because it was cancelled; no error is recorded.
  void MarkCancelled(ClosureId id);
  // Records an error, which need not come from a closure. The first error wins; the texts of later
  // errors are kept.
  void RecordError(const absl::Status& error);
  // Queues a closure that was done before a restore to run again under its old id, even if the
  // queue is full. The closure is a replay until it ends in any way; nothing cancels a replay.
  void PutAgain(std::shared_ptr<Closure> closure);
  size_t replays() const { return replays_.size(); }
  bool IsReplay(ClosureId id) const { return replays_.count(id) > 0; }
  bool HasQueuedReplay() const;
  // Returns the closure that the next Take() returns, or nullptr.
  const Closure* Front() const { return queue_.empty() ? nullptr : queue_.front().get(); }
  // Makes all unfinished closures run all of their steps again.
  void ForgetSteps();
  // Forgets which closures are replays.
  void ForgetReplays();
  // Notes that a worker process may have ended because of the closure. Until the closure ends,
  // Struck() returns it, and its record learns which worker processes are given up or serve.
  void Strike(ClosureId id);
  std::vector<std::shared_ptr<Closure>> Struck() const;
  void OnGivenUp(const proto::TaskRef& process);
  void OnServing(const proto::TaskRef& process);
  // Removes and returns every waiting and queued closure except replays.
  std::vector<std::shared_ptr<Closure>> CancelQueued();

  bool HasError() const { return !error_.ok(); }
  // Returns and forgets the first error. Its message ends with the texts of up to 7 different later
  // errors.
  absl::Status TakeError();

  // Returns the watermark: every closure below it has ended.
  ClosureId watermark() const;
  // Returns the id that the next closure gets.
  ClosureId next_id() const { return ClosureId{last_id_ + 1}; }
  // Makes `next` the id of the next closure. `next` must not be below an id that was given before.
  void SkipTo(ClosureId next);

  // Aborts if a closure is both waiting and queued, or if a waiting, queued, replayed or struck
  // closure has ended.
  void CheckInvariants() const;

 private:
  ClosureId Admit(const std::shared_ptr<Closure>& closure);
  // Removes the closure from `unfinished_`, `replays_` and `struck_`.
  void Finish(ClosureId id);

  const size_t bound_;
  bool is_full_ = false;
  uint64_t last_id_ = 0;
  std::deque<std::shared_ptr<Closure>> queue_;
  // All closures that have not ended, by id.
  std::map<ClosureId, std::shared_ptr<Closure>> unfinished_;
  std::map<ClosureId, std::shared_ptr<Closure>> waiting_;
  // Ids of replays and of struck closures (closures because of which worker processes may have
  // ended). Both are subsets of unfinished_.
  std::set<ClosureId> replays_, struck_;
  absl::Status error_;
  std::vector<std::string> other_errors_;
  bool errors_left_out_ = false;
  // The closures whose failures the recorded errors tell (ErrorDetail.closure_id).
  std::set<uint64_t> failed_;
};

}  // namespace cohort
