#pragma once

// Runs closures on workers. The scheduler joins the queue (closure_queue.h), the workers' slots
// (slot_table.h), and the resources that workers must hold (resource_catalog.h). All calls are
// asynchronous: a completion runs once, on the calling thread or on the transport's thread, and
// must not block.
//
// The first-error protocol: the scheduler records the first application error. The next Schedule,
// Join or Done observes the error: every queued closure is cancelled, closures in flight are
// awaited, then the error is delivered to that one call and cleared. Nothing runs at that moment,
// and the scheduler is usable again. A lost worker may still be at work, so its closures are fenced
// on the parameter servers before the error is delivered.
//
// Recovery (coordinator/recovery): Pause takes every closure back from the workers. Once the
// parameter servers hold a cut again, Resume queues the closures that the cut does not cover, under
// their old ids.

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
#include "coordinator/schedule/slot_table.h"
#include "coordinator/schedule/waiting_calls.h"
#include "coordinator/schedule/worker_run.h"

namespace cohort {

// The state of the checkpoint whose snapshots are being taken, or else of the next checkpoint.
struct SnapshotState {
  // While snapshots are taken, only closures with a lower id than this one run.
  std::optional<ClosureId> before;
  ClosureId watermark;  // the watermark of the snapshots' cut; no push carries a higher one
  // Steps done since the last snapshots; options.checkpoint_every limits them.
  size_t done_since = 0;
  bool asked = false;      // true if a checkpoint was asked for since the last snapshots
  bool recording = false;  // true while BeginSnapshots' `record` runs
};

struct SetUpEnd;

// Thread-safe. Shared: calls in flight hold the scheduler.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  using Options = SchedulerOptions;
  using Stats = SchedulerStats;
  using Done = WaitingCalls::Done;
  // `clock` outlives the scheduler
  static std::shared_ptr<Scheduler> Create(Clock& clock, Options options);
  // Admits the closure when there is room and no Join is waiting, then runs `admitted`. If an error
  // is recorded, `admitted` may get the error, and the closure is then cancelled.
  WaitId Schedule(std::shared_ptr<Closure> closure, Done admitted);
  // Runs `done` when nothing is queued or in flight, or with a recorded error.
  WaitId Join(Done done);
  // Tells `done` whether a Join would end now, or gives a recorded error.
  WaitId CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done);
  // Gives up a waiting call: its completion will not run, and its closure, if not admitted yet,
  // never will be. Returns false if the completion has run or is about to run.
  bool Abandon(WaitId wait);
  // Records an error that no closure reported, such as a lost ps.
  void RecordError(const absl::Status& error);
  // Records an error like RecordError. From then on, every closure ends with this error, and every
  // Schedule, Join and Done gets it.
  void Close(const absl::Status& error);
  // Mark the begin and the end of a wait for a result. In between, an error that no call has
  // observed does not stop closures, because the result may need them.
  void BeginFetch();
  void EndFetch();
  void SetEpoch(uint64_t epoch);  // sets the epoch of later calls; Resume sets it too
  // Pauses: no closure runs until Resume, and closures in flight are queued again, whatever their
  // calls answer. Until Resume a closure ends only at its deadline, and a Join waits. `why` is
  // shown to people.
  void Pause(absl::string_view why);
  // Resumes after a restore: the parameter servers hold what the last committed cut covers, and
  // every other closure runs again.
  void Resume(uint64_t epoch);
  // Returns what a checkpoint covers whose first snapshot is taken after this call.
  Cut BeginCut() const;
  // Holds rounds: until EndSnapshots no round becomes half applied (open_rounds.h). Returns a
  // status at once if no round may be half applied now. Otherwise returns nothing, and `ready` gets
  // the status later, unless a Pause comes first. Errors: FAILED_PRECONDITION naming a broken
  // round.
  std::optional<absl::Status> HoldRounds(Done ready);
  // Begins the cut of a checkpoint whose snapshots are taken now. Closures that are admitted after
  // this call do not run until EndSnapshots: the snapshots would hold their effect under ids that
  // the next coordinator may give to other closures. In `record`, which runs without the lock, the
  // caller records its own state at the moment of the cut. Until `record` has returned, no Join
  // ends and no error is observed, so the program cannot go past closures that the cut leaves open.
  using RecordCut = absl::FunctionRef<void(const Cut& cut)>;
  Cut BeginSnapshots(RecordCut record = [](const Cut&) {});
  void EndSnapshots();
  // Makes the closures of the cut durable, because the cut's checkpoint is committed.
  void CommitCut(const Cut& cut);
  // Returns whether Schedule waits until a checkpoint makes room in the redo log.
  bool IsHeldByRedoLog() const;
  // Lets no closure begin until EndDrain, except closures that a round under way needs. `idle` runs
  // when nothing is in flight.
  void Drain(Done idle);
  void EndDrain();
  // Runs `done` once the scheduler is not paused and every closure that was done before a restore
  // is done again: variables then reflect all results that callers have seen. Errors: the error
  // given to Close.
  void WhenStable(Done done);
  // Makes `next` the id of the next closure; the ids in between belong to an earlier process. Ids
  // only grow.
  void SkipTo(ClosureId next);
  ClosureId NextId() const;
  void WorkerReady(int worker, const proto::TaskRef& task, const std::string& address,
                   std::shared_ptr<Channel> channel);
  // Notes that the worker's process was given up. When every ps has fenced the process, its
  // closures in flight are put back, whatever their calls wait for. The worker gets nothing until
  // WorkerReady.
  void WorkerLost(int worker, const absl::Status& cause);
  // Puts workers out of step: gangs run on the other members until InStep.
  void OutOfStep(const std::set<int>& workers, const absl::Status& cause);
  // Puts a worker in step, unless the process that received the copy of the variables no longer
  // serves. `incarnation` names that process; 0 accepts any.
  void InStep(int worker, uint64_t incarnation = 0);
  // Adds a worker to gangs of several workers. The worker is out of step until InStep.
  void JoinGangs(int worker);
  // Replaces the set of workers that cannot reach tasks that they need.
  void SetApart(const WorkersApart& apart);
  // Sends no gang until ReleaseGangs. `held` runs when no gang is in flight.
  void HoldGangs(Done held);
  void ReleaseGangs();
  // Removes a worker: the worker gets no more closures, and gangs run without it. `drained` runs
  // when no closure is in flight on the worker.
  void RemoveWorker(int worker, absl::AnyInvocable<void()> drained);
  Stats stats() const;
  // Returns the counters of each worker that has not been removed.
  std::map<int, WorkerStats> workers() const;
  // Describes for people which closures are in flight, on which workers, and which calls wait.
  std::string DescribeWait() const;

 private:
  using Run = WorkerRun;
  // Callbacks that run after the lock is released.
  using Effects = std::vector<absl::AnyInvocable<void()>>;

  Scheduler(Clock& clock, Options options);

  // A change of the scheduler's state under the lock. Its destructor does what the change has made
  // possible (Pump), and then runs the effects outside the lock. Thread-compatible.
  class ABSL_SCOPED_LOCKABLE Change {
   public:
    explicit Change(Scheduler& scheduler) ABSL_EXCLUSIVE_LOCK_FUNCTION(scheduler.mutex_);
    ~Change() ABSL_UNLOCK_FUNCTION();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    // Notes that nothing has changed, so Pump does not run: an error that waits is observed by the
    // next change only.
    void IsNone() { moves_ = false; }
    Effects effects;

   private:
    Scheduler& scheduler_;
    bool moves_ = true;
  };
  friend class InvariantsAfter<Scheduler>;
  // Aborts unless each closure that is not queued is in flight or answered, and slots count
  // what workers run.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pump(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveErrorLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishStableWaitsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishJoinsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DispatchLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTooFarAheadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the oldest queued closure must wait because of rounds: its round is held, or an
  // earlier round is not applied yet.
  bool IsBehindARoundLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether an error has ended some closures of a round, and no closure under way can
  // complete the round.
  bool IsRoundBrokenLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndBrokenRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishHoldLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a Drain keeps the front closure from beginning.
  bool IsDrainedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> WorkersForFrontLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OutOfStepLocked(const std::map<int, uint64_t>& workers, const absl::Status& cause,
                       Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Run TakeFrontLocked(const std::vector<int>& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether no late push can be applied; if false, the caller waits until OnFenced.
  bool IsFencedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFenced(uint64_t number, const absl::Status& status);
  void EndQueuedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked(std::shared_ptr<Closure> closure, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnInput(ClosureId id);  // runs when an argument of the closure has become ready
  void FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the redo record and the timer of a closure that will not run again, not even after a
  // restore.
  void DropLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTimerLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire(ClosureId id);  // ends a queued closure at its deadline
  bool IsCurrentLocked(const Run& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the workers of a run whose call broke with `status` no closures until they attach again.
  void SuspectLocked(const Run& run, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts back the closures in flight in these sessions, once every ps has fenced the sessions.
  void FenceAndTakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void AskForFence(const std::set<uint64_t>& sessions, const absl::Status& cause, int tries);
  void TakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void Start(Run run);
  void Prepare(Run run);
  // Returns false if the run has been taken back.
  bool TakeSetUp(const Run& run, const SetUpEnd& end);
  void Call(Run run);
  void End(const Run& run, absl::StatusOr<Envelope<proto::RunClosureResponse>> response);
  // Returns whether a queued closure counts as the cause of its casualties (attempts.h), and ends
  // such a closure.
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
  // Why the scheduler is paused; empty if it is not paused.
  std::string paused_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  ClosureQueue queue_ ABSL_GUARDED_BY(mutex_);
  RedoLog redo_ ABSL_GUARDED_BY(mutex_);
  SnapshotState snapshots_ ABSL_GUARDED_BY(mutex_);
  // The callback of Drain; set until EndDrain, and null once called.
  std::optional<Done> drain_ ABSL_GUARDED_BY(mutex_);
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;  // number of BeginFetch calls without their EndFetch
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
