#pragma once

// Runs closures on workers. It joins the queue (closure_queue.h), a lane per worker with K slots,
// and what workers must hold (resource_catalog.h). All forms are asynchronous: a completion runs
// once, on the calling thread or on the transport's, and must not block.
//
// The first-error protocol: the first application error is recorded; the next Schedule, Join or
// Done observes it: every queued closure is cancelled, closures in flight are awaited, then the
// error is delivered to that one call and cleared. Nothing runs any more when it is delivered, and
// the scheduler goes on being usable. A worker that was lost may still be at work, so its closures
// are fenced on the parameter servers before the error is delivered.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/closure_queue.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/resource_catalog.h"
#include "coordinator/schedule/waiting_calls.h"
#include "proto/error.pb.h"

namespace cohort {

// What a quarantined closure is to the others. Its own result is the error in both cases.
enum class Quarantine {
  kFail,  // an error like any other
  kSkip,  // the job goes on without it; Stats and the log count it
};

// Thread-safe. Shared: calls in flight hold it.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  struct Options {
    uint64_t epoch = 0;
    size_t queue_bound = 262144;      // TensorFlow's
    int closures_in_flight = 2;       // K, per worker
    uint32_t attempts_max = 10;       // of one closure
    // A closure that ended together with so many worker processes is quarantined: not run again.
    size_t quarantine_after = 3;
    // Whether an error stops the queue at once, or, as in TensorFlow, when a call observes it.
    bool stop_at_first_error = true;
    Quarantine quarantine = Quarantine::kFail;
    absl::Duration closure_timeout = absl::Minutes(10);
    // Tells every ps that each closure below `watermark` has ended, so that none of its pushes is
    // applied any more, and says when all of them know. Runs outside the lock, must not block.
    std::function<void(uint64_t watermark, absl::AnyInvocable<void(absl::Status)> done)> fence;
    // A worker's call failed in a way that makes it a suspect; runs outside the lock, must not
    // block.
    std::function<void(int worker, uint64_t incarnation)> on_suspect;
  };
  using Done = WaitingCalls::Done;

  // The clock outlives the scheduler.
  static std::shared_ptr<Scheduler> Create(Clock& clock, Options options);

  // Admits the closure when there is room and no Join is waiting. Errors: a recorded one; the
  // closure is then cancelled.
  WaitId Schedule(std::shared_ptr<Closure> closure, Done admitted);
  // Ends when nothing is queued or in flight. Errors: a recorded one.
  WaitId Join(Done done);
  // Whether nothing is queued or in flight. Errors: a recorded one.
  WaitId CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done);
  // One of the three gives up: its completion will not run, and a closure that was not admitted
  // never is. False when the completion has run or is about to.
  bool Abandon(WaitId wait);
  // Records an error that no closure reported, such as the loss of a parameter server.
  void RecordError(const absl::Status& error);

  void WorkerReady(int worker, const proto::TaskRef& task, std::shared_ptr<Channel> channel);
  // Closures in flight there are put back as their calls end; the lane takes nothing until
  // WorkerReady.
  void WorkerLost(int worker);

  struct Stats {
    uint64_t done = 0;
    uint64_t put_back = 0;
    uint64_t failed = 0;
    uint64_t quarantined = 0;  // of the failed
    size_t queued = 0;  // or waiting for its arguments
    size_t in_flight = 0;
    int workers_ready = 0;
    std::string ToString() const;
  };
  Stats stats() const;
  // What is being waited for, for people: closures in flight and where, and who waits.
  std::string DescribeWait() const;

 private:
  struct Lane {
    bool ready = false;
    proto::TaskRef task;
    std::shared_ptr<Channel> channel;
    int in_flight = 0;
    std::set<std::string> prepared;
  };
  // One closure on one worker process.
  struct Run {
    std::shared_ptr<Closure> closure;
    int worker = 0;
    proto::TaskRef task;
    std::shared_ptr<Channel> channel;
    std::vector<std::string> missing;  // resources still to be made, first one first
  };
  // What to do once the lock is released.
  using Effects = std::vector<absl::AnyInvocable<void()>>;

  Scheduler(Clock& clock, Options options);
  static void RunAll(Effects& effects);

  void Pump(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveErrorLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishJoinsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DispatchLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lane* FreestLaneLocked(int& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False while a fence must be waited for.
  bool IsFencedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFenced(const absl::Status& status);
  void CancelLocked(std::shared_ptr<Closure> closure, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One of the results that the closure takes is there.
  void OnInput(ClosureId id);
  void FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The deadline of a closure has come.
  void Expire(ClosureId id);
  void Start(Run run);
  void Prepare(Run run);
  void Call(Run run);
  void End(const Run& run, absl::StatusOr<Envelope<proto::RunClosureResponse>> response);
  // How long a call for the closure may take.
  absl::Duration TimeoutOf(const Closure& closure) const;
  // The error of a closure that is not to run again; OK when it is to be put back.
  absl::Status GiveUpLocked(const Run& run, const absl::Status& status, Outcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const Run& run, const absl::Status& status, Outcome outcome, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  ClosureQueue queue_ ABSL_GUARDED_BY(mutex_);
  ResourceCatalog resources_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  int last_lane_ ABSL_GUARDED_BY(mutex_) = -1;
  std::map<ClosureId, int> in_flight_ ABSL_GUARDED_BY(mutex_);  // on which worker
  std::map<ClosureId, TimerId> timers_ ABSL_GUARDED_BY(mutex_);  // of closures with a deadline
  WaitingCalls waiting_ ABSL_GUARDED_BY(mutex_);
  // Whether an attempt ended without its worker saying so since the last fence.
  enum class Fence { kNotNeeded, kNeeded, kUnderWay };
  Fence fence_ ABSL_GUARDED_BY(mutex_) = Fence::kNotNeeded;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
