#pragma once

// Runs closures on workers. The scheduler joins the queue of closures (closure_queue.h), the
// workers' slots (slot_table.h), and the resources that workers must hold (resource_catalog.h). All
// calls are asynchronous: a completion runs once, on the calling thread or on a thread of the
// transport, and must not block.
//
// The first-error protocol: the scheduler records the first application error. The next Schedule,
// Join or Done observes the error: every queued closure is cancelled, closures in flight are
// awaited, then the error is delivered to that one call and cleared. At that moment no closure
// runs, and the scheduler can be used again. A lost worker may still be at work, so its closures
// are fenced on the parameter servers before the error is delivered.
//
// Recovery (coordinator/recovery): Pause takes every closure back from the workers. Once the
// parameter servers are restored to a cut, Resume queues the closures that the cut does not cover,
// under their old ids.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/closure.h"
#include "coordinator/schedule/closure_queue.h"
#include "coordinator/schedule/fences.h"
#include "coordinator/schedule/gang_lineup.h"
#include "coordinator/schedule/open_rounds.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/redo_log.h"
#include "coordinator/schedule/resource_catalog.h"
#include "coordinator/schedule/scheduler_options.h"
#include "coordinator/schedule/scheduler_stats.h"
#include "coordinator/schedule/slot_table.h"
#include "coordinator/schedule/waiting_calls.h"
#include "coordinator/schedule/worker_run.h"

namespace cohort {

// The state of the checkpoint whose snapshots are being taken. Between two checkpoints, the state
// of the next one.
struct SnapshotState {
  // The id of the first closure that must wait. While snapshots are taken, only closures with lower
  // ids run.
  std::optional<ClosureId> before;
  ClosureId watermark;  // watermark of the cut; no push carries a higher one
  // Steps of closures done since the last snapshots. A checkpoint is due at
  // options.checkpoint_every steps.
  size_t done_since = 0;
  bool asked = false;      // whether a checkpoint was asked for since the last snapshots
  bool recording = false;  // whether BeginSnapshots now calls `record`
};

struct SetUpEnd;

// Calls in flight share the ownership of the scheduler. Thread-safe.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  using Options = SchedulerOptions;
  using Stats = SchedulerStats;
  using Done = WaitingCalls::Done;
  // Makes a scheduler. `clock` outlives the scheduler.
  static std::shared_ptr<Scheduler> Create(Clock& clock, Options options);
  // Admits the closure once there is room and no Join is waiting, and then runs `admitted`. If an
  // error is recorded meanwhile, `admitted` may get the error, and the closure is cancelled.
  WaitId Schedule(std::shared_ptr<Closure> closure, Done admitted);
  // Runs `done` once no closure is queued or in flight. If an error is recorded, `done` may get the
  // error.
  WaitId Join(Done done);
  // Calls `done` with true if a Join would end now, and with false otherwise. If an error is
  // recorded, `done` gets the error instead.
  WaitId CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done);
  // Gives up a waiting Schedule, Join or Done: its completion will not run. The closure of a
  // Schedule will not be admitted. Returns false if the completion has run or is about to run.
  bool Abandon(WaitId wait);
  // Records an error that does not come from a closure, such as the loss of a ps.
  void RecordError(const absl::Status& error);
  // Closes the scheduler for good: records the error, ends every closure with it, and delivers it
  // to every waiting and later Schedule, Join and Done.
  void Close(const absl::Status& error);
  // Mark the begin and the end of a wait for the result of a closure. In between, queued closures
  // run even if an error is recorded that no call has observed: the result may need them.
  void BeginFetch();
  void EndFetch();
  void SetEpoch(uint64_t epoch);  // sets the epoch that later calls carry
  // Pauses the scheduler: no closure runs until Resume. Closures in flight are queued again, and
  // answers to their calls no longer count. Until Resume, a Join waits, and closures end only at
  // their deadlines. `why` is shown to people.
  void Pause(absl::string_view why);
  // Resumes after a restore, under a new epoch. The parameter servers now hold what the last
  // committed cut covers; every closure that the cut does not cover runs again.
  void Resume(uint64_t epoch);
  // Returns the cut of a checkpoint that begins now. Its snapshots must be taken after this call.
  Cut BeginCut() const;
  // Holds rounds: until EndSnapshots, no further round becomes half applied (open_rounds.h). If no
  // round is half applied, or if a round is broken, returns a status at once. Otherwise returns
  // nothing, and `ready` gets the status later, unless a Pause comes first. Errors:
  // FAILED_PRECONDITION naming a round that an error has broken off.
  std::optional<absl::Status> HoldRounds(Done ready);
  // Begins the cut of a checkpoint whose snapshots are taken now, and returns the cut. Calls
  // `record` without the lock, so that the caller can record its own state at the moment of the
  // cut. Closures that are admitted after this call do not run until EndSnapshots: otherwise the
  // snapshots would hold their effect, while the next coordinator may give their ids to other
  // closures. Until `record` has returned, no Join ends and no error is observed, so the program
  // cannot go on as if closures had ended that the cut leaves open.
  using RecordCut = absl::FunctionRef<void(const Cut& cut)>;
  Cut BeginSnapshots(RecordCut record = [](const Cut&) {});
  void EndSnapshots();
  // Makes the closures that the cut covers durable. Called when the cut's checkpoint is committed.
  void CommitCut(const Cut& cut);
  // Returns whether a Schedule waits for a checkpoint, which makes room in the redo log.
  bool IsHeldByRedoLog() const;
  // Lets no closure begin until EndDrain, except closures that a round under way needs to be
  // applied. `idle` runs once no closure is in flight.
  void Drain(Done idle);
  void EndDrain();
  // Runs `done` once the scheduler is not paused and every closure that was done before a restore
  // is done again. At that moment, the variables contain the effects of all results that callers
  // have seen. Errors: the error given to Close.
  void WhenStable(Done done);
  // Makes `next` the id of the next closure. `next` must be greater than every id given so far. The
  // ids in between belong to closures of an earlier process.
  void SkipTo(ClosureId next);
  ClosureId NextId() const;
  void WorkerReady(int worker, const proto::TaskRef& task, const std::string& address,
                   std::shared_ptr<Channel> channel);
  // Notes that the worker's process was given up. Once every ps has fenced the process, its
  // closures in flight are put back into the queue, even if their calls have not ended. The worker
  // gets no closures until WorkerReady.
  void WorkerLost(int worker, const absl::Status& cause);
  // Puts workers out of step: until InStep, gangs run on the other members of the group.
  void OutOfStep(const std::set<int>& workers, const absl::Status& cause);
  // Puts a worker in step again, which has received a copy of the variables. Does not do so if the
  // worker's process is no longer the one that received the copy: `incarnation` names that process,
  // and 0 accepts any process.
  void InStep(int worker, uint64_t incarnation = 0);
  // Adds a worker to gangs of several workers. The worker is out of step until InStep.
  void JoinGangs(int worker);
  // Replaces the set of workers that cannot reach a task that they need.
  void SetApart(const WorkersApart& apart);
  // Sends no gang until ReleaseGangs. `held` runs once no gang is in flight.
  void HoldGangs(Done held);
  void ReleaseGangs();
  // Removes a worker: it gets no more closures, and gangs run without it. `drained` runs once no
  // closure is in flight on the worker.
  void RemoveWorker(int worker, absl::AnyInvocable<void()> drained);
  Stats stats() const;
  // Returns the counters of every worker that has served and was not removed.
  std::map<int, WorkerStats> workers() const;
  // Returns a text for people: which closures are in flight on which workers, and which calls wait.
  std::string DescribeWait() const;

 private:
  using Run = WorkerRun;
  // Callbacks that run after the scheduler's lock is released.
  using Effects = std::vector<absl::AnyInvocable<void()>>;

  Scheduler(Clock& clock, Options options);

  // A change of the scheduler's state. The lock is held as long as this object lives. The
  // destructor does what the change has made possible (Pump), checks the invariants, releases the
  // lock, and then runs the effects. Thread-compatible.
  class ABSL_SCOPED_LOCKABLE Change {
   public:
    explicit Change(Scheduler& scheduler) ABSL_EXCLUSIVE_LOCK_FUNCTION(scheduler.mutex_);
    ~Change() ABSL_UNLOCK_FUNCTION();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    // Notes that this change has changed nothing, so that its destructor does not call Pump.
    void IsNone() { moves_ = false; }
    Effects effects;

   private:
    Scheduler& scheduler_;
    bool moves_ = true;
  };
  friend class InvariantsAfter<Scheduler>;
  // Aborts unless every closure that has not ended is queued, in flight or answered, and each
  // worker's number of closures in flight is the number of runs on the worker.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pump(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveErrorLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishStableWaitsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishJoinsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DispatchLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTooFarAheadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the oldest queued closure must wait because its round is held, or because an
  // earlier round is not applied yet.
  bool IsBehindARoundLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a round can no longer be completed: an error is recorded, no closure is in
  // flight, and no replay is queued.
  bool IsRoundBrokenLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndBrokenRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishHoldLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the oldest queued closure may not begin because of Drain().
  bool IsDrainedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> WorkersForFrontLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OutOfStepLocked(const std::map<int, uint64_t>& workers, const absl::Status& cause,
                       Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Run TakeFrontLocked(const std::vector<int>& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether every late push is refused or impossible. If not, asks for a fence, and the
  // caller has to wait until OnFenced.
  bool IsFencedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFenced(uint64_t number, const absl::Status& status);
  void EndQueuedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked(std::shared_ptr<Closure> closure, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnInput(ClosureId id);  // called when one argument has become ready
  void FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the redo record and the timer of a closure that will never run again.
  void DropLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTimerLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire(ClosureId id);  // ends the closure at its deadline if it is queued
  bool IsCurrentLocked(const Run& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles a run whose call broke with `status`: its workers, or only the one at fault, get no
  // closures until they attach again.
  void SuspectLocked(const Run& run, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks every ps to fence these sessions, and then puts their closures in flight back into the
  // queue.
  void FenceAndTakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void AskForFence(const std::set<uint64_t>& sessions, const absl::Status& cause, int tries);
  void TakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void Start(Run run);
  void Prepare(Run run);
  // Records the end of a set-up call. Returns false if the run was taken back meanwhile.
  bool TakeSetUp(const Run& run, const SetUpEnd& end);
  void Call(Run run);
  void End(const Run& run, absl::StatusOr<Envelope<proto::RunClosureResponse>> response);
  // If the queued closure is the cause of its casualties (attempts.h), ends it and returns true.
  // Otherwise returns false. `ends_now` is the attempt that ends now, or 0.
  bool QuarantineLocked(const Closure& closure, uint32_t ends_now, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const Run& run, const absl::Status& status, Outcome outcome, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkDoneLocked(Closure& closure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBackLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLostLocked(absl::string_view why, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskForCheckpointLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAtLocked(absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  // The reason why the scheduler is paused, for people. Empty if it is not paused.
  std::string paused_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  ClosureQueue queue_ ABSL_GUARDED_BY(mutex_);
  RedoLog redo_ ABSL_GUARDED_BY(mutex_);
  SnapshotState snapshots_ ABSL_GUARDED_BY(mutex_);
  // The callback of a Drain. The outer value is absent while there is no Drain; the callback is
  // null once it has run.
  std::optional<Done> drain_ ABSL_GUARDED_BY(mutex_);
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;  // number of fetches that wait for a result
  std::vector<Done> stable_waits_ ABSL_GUARDED_BY(mutex_);
  ResourceCatalog resources_ ABSL_GUARDED_BY(mutex_);
  SlotTable slots_ ABSL_GUARDED_BY(mutex_);
  std::map<ClosureId, Run> in_flight_ ABSL_GUARDED_BY(mutex_);
  OpenRounds rounds_ ABSL_GUARDED_BY(mutex_);
  GangLineup gangs_ ABSL_GUARDED_BY(mutex_);
  // The timers of closures with a deadline.
  std::map<ClosureId, TimerId> timers_ ABSL_GUARDED_BY(mutex_);
  WaitingCalls waiting_ ABSL_GUARDED_BY(mutex_);
  Fences fences_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
