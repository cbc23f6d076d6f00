#pragma once

// The queue of closures, as a pure state machine: no threads, no calls. A closure in flight still
// counts towards the queue's bound, so putting it back into the queue never has to wait for room.
// The first error wins: the queue keeps the first error, with the texts of later errors, until a
// caller of Schedule, Join or Done receives it.

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

// The queue of closures of one scheduler. Thread-compatible.
class ClosureQueue {
 public:
  // Makes a queue for at most `bound` closures that have not ended: waiting for arguments, queued
  // or in flight.
  explicit ClosureQueue(size_t bound);

  // Returns whether the queue takes another closure. A queue that was full takes closures again
  // once an eighth of the bound is free, so that waiting callers come in batches. Waking one caller
  // for each closure that ends would cost half of the throughput.
  bool HasRoom() const { return !is_full_ && unfinished_.size() < bound_; }
  bool IsIdle() const { return unfinished_.empty(); }
  size_t queued() const { return queue_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t in_flight() const { return unfinished_.size() - queue_.size() - waiting_.size(); }

  // Queues a closure. The closure gets the next id; if it has later steps, they take the ids after
  // that. HasRoom() must be true.
  ClosureId Put(std::shared_ptr<Closure> closure);
  // Adds a closure that waits for its arguments, until MakeReady queues it. The closure gets an id
  // as in Put. HasRoom() must be true.
  ClosureId PutWaiting(std::shared_ptr<Closure> closure);
  // Returns the closure with this id if it waits for its arguments, or else nullptr.
  Closure* FindWaiting(ClosureId id) const;
  void MakeReady(ClosureId id);
  // Returns the closure with this id if it waits for its arguments or is queued, or else nullptr.
  const Closure* FindQueued(ClosureId id) const;
  // Takes the oldest closure from the queue, and counts it as in flight. Returns nullptr if no
  // closure is queued.
  std::shared_ptr<Closure> Take();
  // Removes and returns the closure if it waits for its arguments or is queued. The closure counts
  // as ended. Otherwise returns nullptr.
  std::shared_ptr<Closure> RemoveQueued(ClosureId id);
  // Puts a closure that was in flight back into the queue, before all younger closures.
  void PutBack(ClosureId id);
  void MarkDone(ClosureId id);
  // Ends the closure as failed, and records the error.
  void MarkFailed(ClosureId id, const absl::Status& error);
  // Ends the closure as cancelled. Records no error.
  void MarkCancelled(ClosureId id);
  // Records an error, which need not be the error of a closure. Only the first error is kept whole;
  // of later errors the texts are kept.
  void RecordError(const absl::Status& error);
  // Queues a closure again that was done before a restore, under its old id and even if the queue
  // is full. The closure is then a replay until it ends. Replays are never cancelled.
  void PutAgain(std::shared_ptr<Closure> closure);
  size_t replays() const { return replays_.size(); }
  bool IsReplay(ClosureId id) const { return replays_.count(id) > 0; }
  bool HasQueuedReplay() const;
  // Returns whether the oldest queued closure has to wait for replays: closures that had ended when
  // it was scheduled, and whose effects it may count on, run again.
  bool IsFrontBehindReplays() const {
    return !queue_.empty() && watermark() < queue_.front()->after;
  }
  // Returns the oldest queued closure, which Take() would return, or nullptr if none is queued.
  const Closure* Front() const { return queue_.empty() ? nullptr : queue_.front().get(); }
  // Forgets which steps of unfinished closures have ended well, so that the closures run all their
  // steps again.
  void ForgetSteps();
  // Makes all replays ordinary closures, which can be cancelled.
  void ForgetReplays();
  // Notes that a worker process may have ended because of the closure ("struck"). Until the closure
  // ends, Struck() returns it, and OnGivenUp and OnServing update its record of attempts.
  void Strike(ClosureId id);
  std::vector<std::shared_ptr<Closure>> Struck() const;
  void OnGivenUp(const proto::TaskRef& process);
  void OnServing(const proto::TaskRef& process);
  // Removes and returns every closure that waits for its arguments or is queued, except replays.
  // The closures count as ended.
  std::vector<std::shared_ptr<Closure>> CancelQueued();

  bool HasError() const { return !error_.ok(); }
  // Returns the first error and forgets all errors. The text of the returned error ends with the
  // texts of later errors, if they differ: at most 7.
  absl::Status TakeError();

  // Returns the watermark: the lowest id such that every closure with a lower id has ended.
  ClosureId watermark() const;
  // Returns the id that the next closure to be queued will get.
  ClosureId next_id() const { return ClosureId{last_id_ + 1}; }
  // Makes `next` the id of the next closure. `next` must be greater than every id that was given
  // before.
  void SkipTo(ClosureId next);

  // Aborts if a closure both waits for its arguments and is queued, or if a waiting, queued,
  // replayed or struck closure is not among the unfinished ones.
  void CheckInvariants() const;

 private:
  ClosureId Admit(const std::shared_ptr<Closure>& closure);
  // Removes an ended closure from `unfinished_`, `replays_` and `struck_`.
  void Finish(ClosureId id);

  const size_t bound_;
  bool is_full_ = false;
  uint64_t last_id_ = 0;
  ClosureId after_;  // Closure::after of the next closure, unless no closure is unfinished then
  std::deque<std::shared_ptr<Closure>> queue_;
  // All closures that have not ended, by id.
  std::map<ClosureId, std::shared_ptr<Closure>> unfinished_;
  std::map<ClosureId, std::shared_ptr<Closure>> waiting_;
  // Ids of replays, and ids of struck closures (because of which worker processes may have ended).
  // All are ids of unfinished closures.
  std::set<ClosureId> replays_, struck_;
  absl::Status error_;
  std::vector<std::string> other_errors_;
  bool errors_left_out_ = false;
  // Ids of the closures whose failures the recorded errors report (ErrorDetail.closure_id).
  std::set<uint64_t> failed_;
};

}  // namespace cohort
