#pragma once

// Runs closures on workers. It joins the queue (closure_queue.h), a lane per worker with K slots,
// and what workers must hold (resource_catalog.h). All forms are asynchronous: a completion runs
// once, on the calling thread or on the transport's, and must not block.
//
// The first-error protocol: the first application error is recorded; the next Schedule, Join or
// Done observes it: every queued closure is cancelled, closures in flight are awaited, then the
// error is delivered to that one call and cleared. Nothing runs then, and the scheduler is usable.
// A worker that was lost may still be at work, so its closures are fenced on the parameter servers
// before the error is delivered.
//
// Recovery (coordinator/recovery): Pause takes every closure back from the workers. Resume, once
// the parameter servers hold a cut again, queues what it does not cover, under the old ids.

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
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/closure.h"
#include "coordinator/schedule/closure_queue.h"
#include "coordinator/schedule/gang_lineup.h"
#include "coordinator/schedule/open_rounds.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/redo_log.h"
#include "coordinator/schedule/resource_catalog.h"
#include "coordinator/schedule/scheduler_options.h"
#include "coordinator/schedule/waiting_calls.h"
#include "coordinator/schedule/worker_slots.h"

namespace cohort {

// Whether an attempt ended without its worker's word since the last fence.
enum class Fence { kNotNeeded, kNeeded, kUnderWay };

struct ErrorFence {
  Fence state = Fence::kNotNeeded;
  uint64_t round = 0;  // so many were begun
};

// The state of the checkpoint that is being taken, or comes next.
struct SnapshotState {
  std::optional<ClosureId> before;  // while they are taken: only older closures run
  ClosureId watermark;              // their cut's; no push is above it
  size_t done_since = 0;            // steps since the last ones; what a checkpoint is due for
  bool asked = false;               // a checkpoint was asked for since the last ones
};

struct SetUpEnd;

// Thread-safe. Shared: calls in flight hold it.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  using Options = SchedulerOptions;
  using Stats = SchedulerStats;
  using Done = WaitingCalls::Done;
  static std::shared_ptr<Scheduler> Create(Clock& clock, Options options);  // clock: outlives it
  // Admits the closure when there is room and no Join is waiting. Errors: a recorded one; the
  // closure is then cancelled.
  WaitId Schedule(std::shared_ptr<Closure> closure, Done admitted);
  WaitId Join(Done done);  // ends when nothing is queued or in flight; errors: a recorded one
  WaitId CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done);  // would Join end now?
  // Gives up a wait: its completion will not run, and a closure that was not admitted never is.
  // Returns false if the completion has run or is about to.
  bool Abandon(WaitId wait);
  void RecordError(const absl::Status& error);  // an error that no closure reported: a ps was lost
  void Close(const absl::Status& error);  // like RecordError, for all that goes on and comes later
  // Enclose a wait for a result, which an unobserved error must not keep from coming.
  void BeginFetch();
  void EndFetch();
  void SetEpoch(uint64_t epoch);  // for what runs from now on; Resume sets it too
  // Pauses: no closure runs until Resume, and those in flight are queued again, whatever their
  // calls answer. Nothing ends but by a deadline; a Join waits. `why` is for people.
  void Pause(absl::string_view why);
  // Resumes: the parameter servers hold what the last committed cut covers; every other closure
  // runs again.
  void Resume(uint64_t epoch);
  Cut BeginCut() const;  // what a checkpoint would cover whose first snapshot is taken later
  // Holds rounds: until EndSnapshots no round gets into some slices before others (open_rounds.h).
  // Returns nothing if `ready` will tell, unless a Pause comes before. Errors: FAILED_PRECONDITION
  // naming a broken round.
  std::optional<absl::Status> HoldRounds(Done ready);
  // Begins the cut of a checkpoint that is taken now. Until EndSnapshots nothing runs that is
  // admitted later: snapshots would hold it under an id that the next coordinator may give to other
  // work.
  Cut BeginSnapshots();
  void EndSnapshots();
  void CommitCut(const Cut& cut);  // its checkpoint is committed
  bool IsHeldByRedoLog() const;    // whether Schedule waits for a checkpoint
  // Lets nothing begin until EndDrain, but what a round under way waits for. `idle` runs when
  // nothing is in flight.
  void Drain(Done idle);
  void EndDrain();
  // Runs `done` once nothing is paused and every closure that was done before a restore is done
  // again: variables then show all that results tell. Errors: that of Close.
  void WhenStable(Done done);
  // Gives the next closure this id; the ids that are left out ended in an earlier process. Only
  // grows.
  void SkipTo(ClosureId next);
  ClosureId NextId() const;
  void WorkerReady(int worker, const proto::TaskRef& task, const std::string& address,
                   std::shared_ptr<Channel> channel);
  // Notes that the process is as good as gone: when every ps has fenced it, its closures in flight
  // are put back, whatever their calls wait for. The lane takes nothing until WorkerReady.
  void WorkerLost(int worker, const absl::Status& cause);
  // Gangs run on the others, until InStep.
  void OutOfStep(const std::set<int>& workers, const absl::Status& cause);
  // Puts a worker in step, unless the process that has got a copy no longer serves: `incarnation`,
  // or any (0).
  void InStep(int worker, uint64_t incarnation = 0);
  // Adds a worker to gangs of several: it is out of step until InStep.
  void JoinGangs(int worker);
  void SetApart(const WorkersApart& apart);  // these from now on, and no others
  // Sends no gang until ReleaseGangs; `held` runs when none is in flight.
  void HoldGangs(Done held);
  void ReleaseGangs();
  // Removes a worker: it takes nothing more, and gangs run without it; `drained` runs when no
  // closure is in flight there.
  void RemoveWorker(int worker, absl::AnyInvocable<void()> drained);
  Stats stats() const;
  std::map<int, WorkerStats> workers() const;  // those that have not been removed
  std::string DescribeWait() const;  // shown to people: closures in flight and where, and who waits

 private:
  using Run = WorkerRun;
  using Effects = std::vector<absl::AnyInvocable<void()>>;  // to run once the lock is released

  Scheduler(Clock& clock, Options options);
  static void RunAll(Effects& effects);
  friend class InvariantsAfter<Scheduler>;
  // Aborts unless each closure that is not queued is in flight or answered, and lanes count what
  // they run.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pump(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveErrorLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishStableWaitsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishJoinsLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DispatchLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTooFarAheadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the closure is of a round that is held, or whether an earlier one waits for its
  // mean.
  bool IsBehindARoundLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether an error has ended some of a round, and nothing under way can fill it.
  bool IsRoundBrokenLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndBrokenRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishHoldLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDrainedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // none may begin
  std::vector<int> LanesForFrontLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OutOfStepLocked(const std::map<int, uint64_t>& workers, const absl::Status& cause,
                       Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Run TakeFrontLocked(const std::vector<int>& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RetireLanesLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFencedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // else it waits
  void OnFenced(uint64_t round, const absl::Status& status);
  void EndQueuedLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked(std::shared_ptr<Closure> closure, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnInput(ClosureId id);  // one of the results that the closure takes is there
  void FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops a closure, which will not run again, whatever happens.
  void DropLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTimerLocked(ClosureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire(ClosureId id);  // its deadline has come
  bool IsCurrentLocked(const Run& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the lanes of a run whose call broke, as `status` says, wait until their workers attach
  // again.
  void SuspectLocked(const Run& run, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts back what is in flight of these sessions, when every ps has fenced them.
  void FenceAndTakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void AskForFence(const std::set<uint64_t>& sessions, const absl::Status& cause, int tries);
  void TakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause);
  void Start(Run run);
  void Prepare(Run run);
  bool TakeSetUp(const Run& run, const SetUpEnd& end);  // false: the run has been taken back
  void Call(Run run);
  void End(const Run& run, absl::StatusOr<Envelope<proto::RunClosureResponse>> response);
  // Returns whether a queued closure counts as the cause of its casualties (attempts.h); it has
  // ended then.
  bool QuarantineLocked(const Closure& closure, uint32_t ends_now, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const Run& run, const absl::Status& status, Outcome outcome, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkDoneLocked(Closure& closure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBackLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLostLocked(absl::string_view why, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskForCheckpointLocked(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAtLocked(absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  std::string paused_ ABSL_GUARDED_BY(mutex_);  // why; empty: not
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  ClosureQueue queue_ ABSL_GUARDED_BY(mutex_);
  RedoLog redo_ ABSL_GUARDED_BY(mutex_);
  SnapshotState snapshots_ ABSL_GUARDED_BY(mutex_);
  std::optional<Done> drain_ ABSL_GUARDED_BY(mutex_);  // told by Drain, until EndDrain
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;            // fetches that wait
  std::vector<Done> stable_waits_ ABSL_GUARDED_BY(mutex_);
  ResourceCatalog resources_ ABSL_GUARDED_BY(mutex_);
  std::map<int, WorkerSlots> lanes_ ABSL_GUARDED_BY(mutex_);
  std::map<int, uint64_t> done_on_ ABSL_GUARDED_BY(mutex_);  // closures, by worker ever ready
  int last_lane_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<ClosureId, Run> in_flight_ ABSL_GUARDED_BY(mutex_);
  OpenRounds rounds_ ABSL_GUARDED_BY(mutex_);
  GangLineup gangs_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> fencing_ ABSL_GUARDED_BY(mutex_);  // sessions that wait for their fence
  // timers of closures with a deadline
  std::map<ClosureId, TimerId> timers_ ABSL_GUARDED_BY(mutex_);
  WaitingCalls waiting_ ABSL_GUARDED_BY(mutex_);
  ErrorFence fence_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
