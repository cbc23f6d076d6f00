#pragma once

// All tasks of the job as the coordinator sees them: which tasks serve, at which address, under
// which incarnation, and in which epoch. Only Cluster changes the epoch: Claim starts a new epoch,
// in which no call of an older epoch has any effect. The coordinator never connects to evaluators.
//
// Workers may come and go while the job runs, within the limits of worker_roster.h. An added worker
// is attached at once, or by the Claim that is under way; later Claims keep the worker. A removed
// worker is no longer a member as soon as RemoveWorker is called, but its connection stays until
// its closures in flight have ended.
//
// The homes of the variables are the tasks of one role: parameter servers or, in strategies without
// parameter servers, workers. The word "ps" below means a home of either role; the loss of a worker
// that is a home is reported both as a lost worker and as a lost home. If all homes have copies of
// the same variables, a home that is out of step (coordinator/recovery/copies.h) does not count as
// a home until it gets a new copy. An added worker does not count as a home either, even after a
// Claim, until it has got its first copy. A removed worker is not a home, and the last home that
// has a copy cannot be removed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/cluster/edges.h"
#include "coordinator/cluster/epoch_claim.h"
#include "coordinator/cluster/farewell.h"
#include "coordinator/cluster/reach_watch.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/cluster/worker_roster.h"

namespace cohort {

// The configuration and the callbacks of a Cluster. Thread-compatible.
struct ClusterOptions {
  ClusterSpec spec;
  CoordinatorIdentity self;
  uint64_t seed = 0;
  WorkerLimits limits;
  Role homes = Role::kPs;
  bool mirrored = false;   // whether all homes have copies of the same variables
  int worker_threads = 0;  // compute threads of each worker; 0: the worker decides
  // Returns the present address of a task. Null: the address in the spec is used.
  std::function<std::string(TaskId)> address;
  // The members from here on are callbacks, which run outside the lock and must not block. If a
  // home was lost before, on_home_serving runs after on_ps_lost.
  std::function<void(const TaskLink&)> on_home_serving;
  std::function<void(int worker, const TaskLink&)> on_worker_ready;
  std::function<void(int worker, const absl::Status& cause)> on_worker_lost;
  // Tells that the worker takes no closure from now on; `drained` must be called when the worker
  // has no closure in flight. May be repeated for one worker.
  std::function<void(int worker, absl::AnyInvocable<void()> drained)> on_worker_removed;
  // Tells that a task was asked to end. The task serves on for `patience` or until `let_go` is
  // called. Null: the task counts as lost at once.
  std::function<void(TaskId, absl::Duration patience, absl::AnyInvocable<void()> let_go)>
      on_leaving;
  // Tells that the worker is a new member that needs a copy of the variables.
  std::function<void(int worker)> on_home_added;
  // Tells that a home is lost. The error has class PS_LOST and names the home.
  std::function<void(const absl::Status&)> on_ps_lost;
  std::string ps_lost_remedy;  // advice to the user at the end of a PS_LOST error text
  // Tells which tasks must not work because some pairs of tasks do not reach each other. May be
  // repeated.
  std::function<void(const Apart&)> on_apart;
  // Tells that another coordinator holds a task, with an error of class STALE. Does not run for
  // workers that were added after the start.
  std::function<void(const absl::Status&)> on_superseded;
};

// A worker that is being removed: it is not a member, but its connection is kept until its closures
// have ended.
struct LeavingWorker {
  Member member;
  std::shared_ptr<TaskConnection> connection;  // null: the worker was never attached
};

// A wait until every home and at least `min_workers` workers serve.
struct ReadyWait {
  int min_workers = 0;
  absl::AnyInvocable<void(absl::Status)> done;
};

// Callbacks to run when tasks are lost. A caller adds a watch for the task that it calls, because a
// call to a lost task takes longer to time out. Thread-safe.
class LossWatches {
 public:
  // The callback of a watch, which runs once, outside the lock.
  using Lost = absl::AnyInvocable<void(absl::Status)>;

  // Watches one task or, without a task, all homes of variables. Returns the number of the watch.
  uint64_t Add(std::optional<TaskId> task, Lost lost);
  // Ends a watch: its callback `lost` does not run any more, unless it is running now.
  void Forget(uint64_t watch);
  // Runs and removes the watches of the task or, without a task, the watches of homes.
  void Tell(std::optional<TaskId> task, const absl::Status& cause);

 private:
  struct Watch {
    std::optional<TaskId> task;
    Lost lost;
  };
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Watch> watches_ ABSL_GUARDED_BY(mutex_);
};

// The tasks of one job: their addresses, connections and homes, and the coordinator's epoch.
// Thread-safe. Shared: the callbacks of its connections hold it.
class Cluster : public std::enable_shared_from_this<Cluster> {
 public:
  using Options = ClusterOptions;

  // The state of a task, to be shown to people.
  struct TaskStatus {
    TaskId task;
    std::string address;
    uint64_t incarnation = 0;  // incarnation of a serving task, else 0
    bool serving = false;
    bool leaving = false;  // the worker was removed, but closures are still in flight there
    // "worker:1 serves at …", or the reason why the task does not serve.
    std::string text;
  };

  static std::shared_ptr<Cluster> Create(World world, Options options);
  ~Cluster();

  // Ends the present epoch, waits for every ps, claims the next epoch above `floor` on all of them
  // (epoch_claim.h), and attaches all tasks under the new epoch. `done` gets the new epoch before
  // the tasks serve. A second Claim replaces a Claim under way, whose `done` then does not run.
  // Errors: those of EpochClaim; Abort's.
  void Claim(uint64_t floor, absl::AnyInvocable<void(absl::StatusOr<uint64_t>)> done);
  // Drops the callbacks of waiting Claim and WhenReady calls when the coordinator ends. A later
  // WhenReady gets CANCELLED.
  void Stop();
  // Returns an error of class STALE after a task has reported that another coordinator has taken
  // over; OK before.
  absl::Status superseded() const;
  // Ends every present and later wait for tasks with the error `why`.
  void Abort(const absl::Status& why);
  // Returns the error with which every wait for tasks ends; OK while waits are possible.
  absl::Status ended() const;
  // Runs `done` once when every ps and at least `min_workers` workers serve, in this epoch or a
  // later one. Errors: of class STALE when another coordinator has taken over; that of Abort.
  void WhenReady(int min_workers, absl::AnyInvocable<void(absl::Status)> done);
  // Runs `lost` once when the task is lost or, without a task, when any home is lost. Runs `lost`
  // at once if the task or a home is lost already. Returns the number of the watch.
  uint64_t WatchLoss(std::optional<TaskId> task, LossWatches::Lost lost);
  void ForgetWatch(uint64_t watch) { loss_watches_.Forget(watch); }
  void SuspectWorker(int worker, uint64_t incarnation);
  void SuspectPs(int ps);
  // Notes that a worker did not reach the ps. Suspects the ps, unless the coordinator itself hears
  // it.
  void DoubtPs(int ps);

  // Adds a worker. If `address` is empty, Options.address must know the worker's address. Errors:
  // those of WorkerRoster::Add; FAILED_PRECONDITION while the task is being removed.
  absl::Status AddWorker(TaskId task, std::string address);
  // Removes a worker. `done` runs with OK when the worker has nothing in flight and was told the
  // farewell; a worker is not told if another coordinator has taken over. `done` runs at once if
  // the removal is refused. Errors: those of WorkerRoster::Remove; FAILED_PRECONDITION for the only
  // worker that has the variables.
  void RemoveWorker(TaskId task, Farewell farewell, absl::AnyInvocable<void(absl::Status)> done);
  // Moves a worker that does not serve to another address. Returns false, and changes nothing, if
  // the worker serves or is not a member.
  bool MoveWorker(TaskId task, std::string address);
  std::vector<TaskStatus> TaskStatuses() const;
  const WorkerLimits& limits() const { return options_.limits; }

  // Returns links to all ps in index order. Errors: UNAVAILABLE, class PS_LOST, naming the first ps
  // that does not serve.
  absl::StatusOr<std::vector<TaskLink>> ps() const;
  // Returns links to the homes that write a checkpoint: every ps or, if the homes are mirrored,
  // only the first one.
  absl::StatusOr<std::vector<TaskLink>> savers() const;
  int num_savers() const { return options_.mirrored ? 1 : num_ps(); }
  // Notes that the home no longer has a valid copy. Does nothing while an epoch is being claimed,
  // because all homes are restored afterwards. Returns whether some home has a valid copy.
  bool DropHome(int index);
  // Notes that the process `process` of a home has a valid copy again, which includes the first
  // `changes` changes. Returns false, and changes nothing, if the coordinator has changed variables
  // since those changes or is changing them, or if another process serves in the home's place.
  bool TakeHome(int index, const proto::TaskRef& process, uint64_t changes);
  bool IsMember(TaskId task) const;
  // Returns whether the worker reaches all members of its group, as far as is known.
  bool MayJoin(int index) const;
  // Mark the beginning and the end of a call by which the coordinator changes variables.
  // BeginChange must come before the caller asks ps() for the homes.
  void BeginChange();
  void EndChange();
  uint64_t changes() const;
  // Returns links to all tasks that serve now.
  std::vector<TaskLink> serving() const;
  // Returns whether the task serves and is not suspected of being lost.
  bool IsReached(TaskId task) const;
  int num_ps() const;
  // Returns the position in the list ps() of the parameter server with this task index. Errors:
  // INVALID_ARGUMENT naming the servers that the cluster has.
  absl::StatusOr<size_t> PositionOfPs(uint32_t index) const;
  uint64_t epoch() const;  // 0 until the first Claim is granted
  // Returns a new number for a save or a staged restore, larger than all numbers returned before.
  uint64_t NextSave();
  const CoordinatorIdentity& self() const { return options_.self; }
  Role homes() const { return options_.homes; }
  bool IsMirrored() const { return options_.mirrored; }
  // Describes every task: where it serves, or why it does not serve.
  std::string Report() const;
  // Describes the tasks that do not answer now, or all tasks if each of them answers.
  std::string ReportMissing() const;
  // Returns texts about pairs of tasks that do not reach each other although the coordinator
  // reaches both: "no worker reaches ps:0", "worker:1 and ps:0 do not reach each other".
  std::vector<std::string> ReportApart() const;
  // A task that should have answered by now. A waiting call may be waiting for this task.
  struct Silent {
    TaskId task;
    absl::Duration since;  // time since the last answer; infinite: the task does not serve
  };
  std::vector<Silent> silent() const;

 private:
  Cluster(World world, Options options);
  std::string AddressOf(TaskId task) const;
  std::string AddressOfLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  proto::AttachRequest MakeAttachLocked(uint64_t epoch, TaskId task) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the incarnation of a ps, or 0 if it is not known.
  uint64_t IncarnationLocked(TaskId ps) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<TaskConnection> MakeConnectionLocked(TaskId task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnClaimed(uint64_t epoch);
  void Suspect(TaskId task, std::optional<uint64_t> incarnation);
  void OnReady(TaskId task, const TaskLink& link);
  void OnLost(TaskId task, const absl::Status& cause);
  void OnSuperseded(const absl::Status& cause);
  bool IsHeard(TaskId task) const;
  Apart FindApart() const;
  void EndWaits(const absl::Status& why);
  void TellOfLoss(TaskId task, const absl::Status& of_home);
  std::string DescribeLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnswersLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReadyLocked(int min_workers) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<ReadyWait> TakeReadyLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Return task indices of homes in ascending order. HomesLocked: the homes that should have a
  // copy. HomesInStepLocked: the homes that have a valid copy now.
  std::vector<int> HomesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> HomesInStepLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLeavesACopyLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const Options options_;
  LossWatches loss_watches_;
  mutable Mutex mutex_;
  WorkerRoster roster_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // True from the call of Claim until the epoch is granted.
  bool claiming_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_save_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<ReachWatch> reach_;              // watches pairs of tasks; constant after Create
  std::set<int> dropped_ ABSL_GUARDED_BY(mutex_);  // homes whose copy is not valid now
  // Homes that got a copy after the beginning, each with a number that orders them by that time.
  std::map<int, uint64_t> joined_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> joining_ ABSL_GUARDED_BY(mutex_);  // added workers that never had a copy
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;   // changes by the coordinator that have begun
  int open_changes_ ABSL_GUARDED_BY(mutex_) = 0;   // changes by the coordinator that have not ended
  // The latest claim; its calls under way share it.
  std::shared_ptr<EpochClaim> claim_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, std::shared_ptr<TaskConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, LeavingWorker> leaving_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, TaskLink> links_ ABSL_GUARDED_BY(mutex_);  // links to the tasks that serve
  // The incarnation with which each ps first served in this epoch. A ps with another incarnation
  // has lost the variables.
  std::map<TaskId, uint64_t> first_incarnation_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadyWait> ready_waits_ ABSL_GUARDED_BY(mutex_);
  // The error with which every wait for tasks ends; OK: waits are possible.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status superseded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
