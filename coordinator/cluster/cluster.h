#pragma once

// All tasks of the job as the coordinator sees them: which tasks serve, at which address, under
// which incarnation, and in which epoch. Only Cluster changes the epoch: Claim begins a new epoch,
// in which calls of older epochs have no effect. The coordinator never connects to evaluators.
//
// Workers may come and go while the job runs, within the limits of worker_roster.h. An added worker
// is attached at once, or by the Claim that is under way; later Claims attach it again. A removed
// worker is no longer a member as soon as RemoveWorker is called, but the connection to it stays
// until its closures in flight have ended.
//
// The homes of the variables are the tasks of one role: parameter servers or, in strategies without
// parameter servers, workers. In this file "ps" means a home of either role. The loss of a worker
// that is a home is reported twice: as a lost worker and as a lost home. If all homes have copies
// of the same variables ("mirrored"), a home that is out of step (coordinator/recovery/copies.h)
// does not count as a home until it gets a new copy. An added worker does not count as a home until
// it has got its first copy, even if a Claim comes first. A removed worker is no home, and the last
// home that has a copy cannot be removed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  bool mirrored = false;   // if true, all homes have copies of the same variables
  int worker_threads = 0;  // number of compute threads of each worker; if 0, the worker decides
  // Returns the present address of a task. If the function is null, the address in `spec` is used.
  std::function<std::string(TaskId)> address;
  // All members from here on, except ps_lost_remedy, are callbacks. They run outside the lock and
  // must not block. If a home was lost before, on_ps_lost runs before on_home_serving.
  std::function<void(const TaskLink&)> on_home_serving;
  std::function<void(int worker, const TaskLink&)> on_worker_ready;
  std::function<void(int worker, const absl::Status& cause)> on_worker_lost;
  // Called when a worker is removed: it must get no closure from now on. `drained` must be called
  // once no closure is in flight on the worker. May be called several times for one worker.
  std::function<void(int worker, absl::AnyInvocable<void()> drained)> on_worker_removed;
  // Called when a task was asked to end. The task continues to serve until `let_go` is called, but
  // at most for `patience`. If the callback is null, such a task counts as lost at once.
  std::function<void(TaskId, absl::Duration patience, absl::AnyInvocable<void()> let_go)>
      on_leaving;
  // Called when a worker was added that needs a copy of the variables.
  std::function<void(int worker)> on_home_added;
  // Called when a home is lost. The error has class PS_LOST and names the home.
  std::function<void(const absl::Status&)> on_ps_lost;
  std::string ps_lost_remedy;  // advice to the user, added to the text of PS_LOST errors
  // Called when other tasks than before must not work, because pairs of tasks do not reach each
  // other. May be called again with the same tasks.
  std::function<void(const Apart&)> on_apart;
  // Called when another coordinator holds a task of this job, with an error of class STALE. Not
  // called because of workers that were added after the job's start.
  std::function<void(const absl::Status&)> on_superseded;
};

// A worker that is being removed. It is not a member any more, but the connection to it is kept
// until its closures in flight have ended.
struct LeavingWorker {
  Member member;
  // The connection to the worker; null if it was never attached.
  std::shared_ptr<TaskConnection> connection;
};

// A waiting call of WhenReady: `done` runs once every home and at least `min_workers` workers
// serve.
struct ReadyWait {
  int min_workers = 0;
  absl::AnyInvocable<void(absl::Status)> done;
};

// Callbacks to run when tasks are lost. Code that calls a task adds a watch for it: the loss of the
// task is known sooner than the call to it times out. Thread-safe.
class LossWatches {
 public:
  // The callback of a watch. It runs at most once, outside the lock.
  using Lost = absl::AnyInvocable<void(absl::Status)>;

  // Watches one task or, if `task` is absent, all homes of variables. Returns the watch's number.
  uint64_t Add(std::optional<TaskId> task, Lost lost);
  // Ends a watch: its callback will not run any more, but may be running now.
  void Forget(uint64_t watch);
  // Calls and removes the watches of `task` or, if `task` is absent, the watches of all homes.
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
// Callbacks of the connections share its ownership for a time. Thread-safe.
class Cluster : public std::enable_shared_from_this<Cluster> {
 public:
  using Options = ClusterOptions;

  // The state of one task, for people to read.
  struct TaskStatus {
    TaskId task;
    std::string address;
    uint64_t incarnation = 0;  // the task's incarnation if it serves, else 0
    bool serving = false;
    bool leaving = false;  // if true, the worker was removed, but closures are in flight there
    // A sentence about the task, such as "worker:1 serves at …", or the reason why it does not
    // serve.
    std::string text;
  };

  static std::shared_ptr<Cluster> Create(World world, Options options);
  ~Cluster();

  // Ends the present epoch, waits for every ps, claims a new epoch above `floor` on all of them
  // (epoch_claim.h), and attaches all tasks under the new epoch. `done` gets the new epoch before
  // the tasks serve. If a Claim is under way, the new Claim replaces it, and the `done` of the
  // replaced Claim does not run. Errors: those of EpochClaim; the error of Abort.
  void Claim(uint64_t floor, absl::AnyInvocable<void(absl::StatusOr<uint64_t>)> done);
  // Ends the cluster's work when the coordinator ends: callbacks of waiting Claim and WhenReady
  // calls are dropped, and connections stop. A later WhenReady gets CANCELLED.
  void Stop();
  // Returns an error of class STALE if a task has reported that another coordinator has
  // taken over this job; else OK.
  absl::Status superseded() const;
  // Ends every present and later wait for tasks with the error `why`.
  void Abort(const absl::Status& why);
  // Returns the error with which waits for tasks end since Abort, Stop or the takeover by another
  // coordinator; OK if none of these has happened.
  absl::Status ended() const;
  // Calls `done` once, as soon as every ps and at least `min_workers` workers serve, in this epoch
  // or a later one. Errors: of class STALE if another coordinator has taken over; the error of
  // Abort.
  void WhenReady(int min_workers, absl::AnyInvocable<void(absl::Status)> done);
  // Calls `lost` once when `task` is lost or, if `task` is absent, when any home of variables is
  // lost. If it is lost already, calls `lost` at once. Returns the number of the watch.
  uint64_t WatchLoss(std::optional<TaskId> task, LossWatches::Lost lost);
  void ForgetWatch(uint64_t watch) { loss_watches_.Forget(watch); }
  void SuspectWorker(int worker, uint64_t incarnation);
  void SuspectPs(int ps);
  // Records that a worker could not reach the ps. If the ps does not answer the coordinator either,
  // suspects the ps.
  void DoubtPs(int ps);

  // Adds a worker. If `address` is empty, Options.address must know the worker's address. Errors:
  // those of WorkerRoster::Add; FAILED_PRECONDITION if a worker with this index is still being
  // removed.
  absl::Status AddWorker(TaskId task, std::string address);
  // Removes a worker. `done` gets OK once no closure is in flight on the worker and the farewell
  // was sent to it. If another coordinator has taken over, no farewell is sent. If the removal is
  // refused, `done` gets the error at once. Errors: those of WorkerRoster::Remove;
  // FAILED_PRECONDITION for the only worker that has a copy of the variables.
  void RemoveWorker(TaskId task, Farewell farewell, absl::AnyInvocable<void(absl::Status)> done);
  // Changes the address of a worker that does not serve. If the worker serves or is not a member,
  // changes nothing and returns false.
  bool MoveWorker(TaskId task, std::string address);
  std::vector<TaskStatus> TaskStatuses() const;
  const WorkerLimits& limits() const { return options_.limits; }

  // Returns links to all ps in the order of their indices. Errors: UNAVAILABLE of class PS_LOST,
  // naming the first ps that does not serve.
  absl::StatusOr<std::vector<TaskLink>> ps() const;
  // Returns links to the homes that write the shards of a checkpoint: every ps or, if homes are
  // mirrored, only the first one.
  absl::StatusOr<std::vector<TaskLink>> savers() const;
  int num_savers() const { return options_.mirrored ? 1 : num_ps(); }
  // Notes that the home's copy of the variables is no longer valid, except while an epoch is
  // claimed: all homes are restored after that. Returns whether any home still has a valid copy.
  bool DropHome(int index);
  // Notes that the process `process` of a home has a valid copy of the variables. The copy contains
  // the first `changes` of the changes that the coordinator has made. If the coordinator has begun
  // further changes since, or if another process serves as this home, notes nothing and returns
  // false.
  bool TakeHome(int index, const proto::TaskRef& process, uint64_t changes);
  bool IsMember(TaskId task) const;
  // Returns whether the worker may be in the group: as far as is known, it reaches all of the
  // group's members.
  bool MayJoin(int index) const;
  // Mark the begin and the end of a call by which the coordinator changes variables. The caller
  // must call BeginChange before it asks ps() for the homes.
  void BeginChange();
  void EndChange();
  uint64_t changes() const;
  // Returns links to all tasks that serve now, of any role.
  std::vector<TaskLink> serving() const;
  // Returns whether the task serves and is not a suspect.
  bool IsReached(TaskId task) const;
  int num_ps() const;
  // Returns the position of the ps with this task index in the list that ps() returns. Errors:
  // INVALID_ARGUMENT, naming the indices that the cluster has.
  absl::StatusOr<size_t> PositionOfPs(uint32_t index) const;
  uint64_t epoch() const;  // the present epoch; 0 until the first one is granted
  // Returns a number for a save or a staged restore of a checkpoint, larger than all numbers
  // returned before.
  uint64_t NextSave();
  const CoordinatorIdentity& self() const { return options_.self; }
  Role homes() const { return options_.homes; }
  bool IsMirrored() const { return options_.mirrored; }
  // Returns a text about every task: where it serves, or why it does not serve.
  std::string Report() const;
  // Returns a text about the tasks that do not answer now, or about all tasks if all answer.
  std::string ReportMissing() const;
  // Returns a text for each pair of tasks that do not reach each other although the coordinator
  // reaches both, such as "no worker reaches ps:0" or "worker:1 and ps:0 do not reach each other".
  std::vector<std::string> ReportApart() const;
  // A task that should have answered by now. If a call of the API waits, it may wait for this task.
  struct Silent {
    TaskId task;
    absl::Duration since;  // time since the task's last answer; infinite if it does not serve
  };
  std::vector<Silent> silent() const;

 private:
  Cluster(World world, Options options);
  std::string AddressOf(TaskId task) const;
  std::string AddressOfLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Connections to renew, with the request for each.
  using Renewals = std::vector<std::pair<std::shared_ptr<TaskConnection>, proto::AttachRequest>>;
  // Attaches all workers again if they were told of another process of the ps than the one that
  // serves now: a ps may be restarted between its answer to the claim and its first Attach, and
  // have another address then.
  Renewals TellWorkersLocked(TaskId ps, const TaskLink& link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  proto::AttachRequest MakeAttachLocked(uint64_t epoch, TaskId task) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the incarnation of the ps, or 0 if the incarnation is not known.
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
  // Return the task indices of homes in ascending order. HomesLocked returns the homes that should
  // have a copy of the variables; HomesInStepLocked returns those that have a valid copy now.
  std::vector<int> HomesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> HomesInStepLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLeavesACopyLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const Options options_;
  LossWatches loss_watches_;
  mutable Mutex mutex_;
  WorkerRoster roster_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // True from the call of Claim until the new epoch is granted.
  bool claiming_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_save_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<ReachWatch> reach_;  // watches pairs of tasks; not changed after Create
  std::set<int> dropped_ ABSL_GUARDED_BY(mutex_);  // homes whose copy is not valid now
  // Homes that were not there at the beginning or lost their copy since. The number orders them by
  // the time when they got their present copy.
  std::map<int, uint64_t> joined_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> joining_ ABSL_GUARDED_BY(mutex_);  // added workers that never had a copy
  // The number of changes of variables that the coordinator has begun.
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_changes_ ABSL_GUARDED_BY(mutex_) = 0;  // changes that have begun and not ended
  // The latest epoch claim, shared with its calls under way.
  std::shared_ptr<EpochClaim> claim_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, std::shared_ptr<TaskConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, LeavingWorker> leaving_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, TaskLink> links_ ABSL_GUARDED_BY(mutex_);  // links to tasks that serve
  // The incarnation of each ps when it first served in this epoch. If a ps serves with another
  // incarnation, its process was restarted and has lost the variables.
  std::map<TaskId, uint64_t> first_incarnation_ ABSL_GUARDED_BY(mutex_);
  // The process of each ps that the workers were told in this epoch: incarnation and address.
  using Process = std::pair<uint64_t, std::string>;
  std::map<TaskId, Process> told_ps_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadyWait> ready_waits_ ABSL_GUARDED_BY(mutex_);
  // The error with which every wait for tasks ends. OK while waits can succeed.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status superseded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
