#pragma once

// All tasks of the job as the coordinator sees them: which ones serve, where, under which
// incarnation, and in which epoch. The only writer of the epoch: Claim starts a new one, in which
// no call of an older one changes anything. Evaluators are never connected to.
//
// Workers may come and go while the job runs (worker_roster.h has the limits). An added worker is
// attached at once, or by the Claim that is under way; later Claims keep it. A removed one is no
// longer a member from the call on, but its connection stays until its closures in flight have
// ended.
//
// The homes of the variables are the tasks of one role: parameter servers or, in strategies without
// any, workers. What is said of a ps below holds for a home of either role; a worker that is a home
// and is lost is lost as both. If all homes have copies of the same variables, those that are out
// of step (coordinator/recovery/copies.h) are not homes until a copy is made for them. The same
// holds for added ones, even after a Claim, until they have got their first copy. A home that is
// removed is no home any more; the last one that has a copy cannot be removed.

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

// Thread-compatible.
struct ClusterOptions {
  ClusterSpec spec;
  CoordinatorIdentity self;
  uint64_t seed = 0;
  WorkerLimits limits;
  Role homes = Role::kPs;
  bool mirrored = false;   // homes have copies of the same variables
  int worker_threads = 0;  // compute threads of each worker; 0 lets it decide
  // Returns the present address of a task; by default that of the spec.
  std::function<std::string(TaskId)> address;
  // Callbacks, which run outside the lock and must not block.
  std::function<void(const TaskLink&)> on_home_serving;  // after its loss before was told
  std::function<void(int worker, const TaskLink&)> on_worker_ready;
  std::function<void(int worker, const absl::Status& cause)> on_worker_lost;
  // Tells that the worker takes no closure from now on; `drained` runs when it has none in flight.
  // May be repeated.
  std::function<void(int worker, absl::AnyInvocable<void()> drained)> on_worker_removed;
  // Tells that a task was asked to end, and serves on for `patience` or until `let_go`. Null: it is
  // lost at once.
  std::function<void(TaskId, absl::Duration patience, absl::AnyInvocable<void()> let_go)>
      on_leaving;
  std::function<void(int worker)> on_home_added;        // a member that is to get a copy
  std::function<void(const absl::Status&)> on_ps_lost;  // class PS_LOST, origin filled in
  std::string ps_lost_remedy;                           // ends its text
  // Tells which tasks do nothing now, as pairs of tasks do not reach each other. May be repeated.
  std::function<void(const Apart&)> on_apart;
  // Tells that another coordinator holds a task: class STALE. Does not run for workers that were
  // added.
  std::function<void(const absl::Status&)> on_superseded;
};

// A worker that is being removed: no member any more, and still watched.
struct LeavingWorker {
  Member member;
  std::shared_ptr<TaskConnection> connection;  // null: it was never attached
};

// A wait until every home and so many workers serve.
struct ReadyWait {
  int min_workers = 0;
  absl::AnyInvocable<void(absl::Status)> done;
};

// Watches for the loss of tasks: callers whose call to a lost task would be waited for longer.
// Thread-safe.
class LossWatches {
 public:
  // Runs once, outside the lock.
  using Lost = absl::AnyInvocable<void(absl::Status)>;

  // Watches a task, or any home of variables. Returns the number of the watch.
  uint64_t Add(std::optional<TaskId> task, Lost lost);
  // Ends a watch: `lost` does not run any more, unless it is running.
  void Forget(uint64_t watch);
  // Ends the watches of the task, or of homes.
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

// Thread-safe. Shared: the callbacks of its connections hold it.
class Cluster : public std::enable_shared_from_this<Cluster> {
 public:
  using Options = ClusterOptions;

  // A task as people are shown it.
  struct TaskStatus {
    TaskId task;
    std::string address;
    uint64_t incarnation = 0;  // set for a serving task
    bool serving = false;
    bool leaving = false;  // removed, with closures in flight
    std::string text;      // "worker:1 serves at …", or why not
  };

  static std::shared_ptr<Cluster> Create(World world, Options options);
  ~Cluster();

  // Ends the present epoch, waits for every ps, claims the next epoch above `floor` there
  // (epoch_claim.h) and attaches all tasks under it. `done` gets the new epoch, before the tasks
  // serve. A later Claim replaces one that is under way, whose `done` then does not run. Errors:
  // those of EpochClaim; Abort's.
  void Claim(uint64_t floor, absl::AnyInvocable<void(absl::StatusOr<uint64_t>)> done);
  // Drops what Claim and WhenReady wait with, at the end. A later WhenReady gets CANCELLED.
  void Stop();
  // Returns why this coordinator holds the tasks no more: of class STALE. OK: no task has said so.
  absl::Status superseded() const;
  // Ends everything that waits for tasks, now and later, with the error.
  void Abort(const absl::Status& why);
  absl::Status ended() const;  // what such a wait ends with; OK while there may be one
  // Runs `done` once when every ps and at least `min_workers` workers serve, in this epoch or a
  // later one. Errors: of class STALE when another coordinator has taken over; that of Abort.
  void WhenReady(int min_workers, absl::AnyInvocable<void(absl::Status)> done);
  // Runs `lost` once when the task is lost, or without a task any home, at once if it is lost now.
  uint64_t WatchLoss(std::optional<TaskId> task, LossWatches::Lost lost);
  void ForgetWatch(uint64_t watch) { loss_watches_.Forget(watch); }
  void SuspectWorker(int worker, uint64_t incarnation);
  void SuspectPs(int ps);
  void DoubtPs(int ps);  // a worker did not reach it: suspected unless it is heard here

  // Adds a worker. With an empty address, Options.address knows it. Errors: those of
  // WorkerRoster::Add; FAILED_PRECONDITION while the task is being removed.
  absl::Status AddWorker(TaskId task, std::string address);
  // Removes a worker. `done` runs when the worker has nothing in flight and was told, unless
  // another coordinator has taken over, or with the refusal. Errors: those of WorkerRoster::Remove;
  // FAILED_PRECONDITION for the only one that has the variables.
  void RemoveWorker(TaskId task, Farewell farewell, absl::AnyInvocable<void(absl::Status)> done);
  // Moves a worker that does not serve to another address. Returns false if it serves or is not a
  // member.
  bool MoveWorker(TaskId task, std::string address);
  std::vector<TaskStatus> TaskStatuses() const;
  const WorkerLimits& limits() const { return options_.limits; }

  // Links to all ps in index order. Errors: UNAVAILABLE, class PS_LOST, naming the first that is
  // not serving.
  absl::StatusOr<std::vector<TaskLink>> ps() const;
  absl::StatusOr<std::vector<TaskLink>> savers() const;  // the first copy alone
  int num_savers() const { return options_.mirrored ? 1 : num_ps(); }
  // Notes that the home has no copy any more; does nothing while an epoch is claimed, after which
  // all are put back. Returns whether another home has a copy.
  bool DropHome(int index);
  // Notes that the process has a copy again, as of `changes`. Returns false, and changes nothing,
  // if the coordinator itself has changed variables since, or is about to, or if another process
  // serves.
  bool TakeHome(int index, const proto::TaskRef& process, uint64_t changes);
  bool IsMember(TaskId task) const;
  bool MayJoin(int index) const;  // whether it reaches all of the group, as far as is known
  // Enclose a call by which the coordinator changes variables, begun before ps() is asked where.
  void BeginChange();
  void EndChange();
  uint64_t changes() const;
  // Links to all tasks that serve now.
  std::vector<TaskLink> serving() const;
  // Returns whether the task answers, as far as is known: it serves, and is not suspected.
  bool IsReached(TaskId task) const;
  int num_ps() const;
  // Returns the position in ps() of the parameter server with this task index. Errors:
  // INVALID_ARGUMENT naming the servers that the cluster has.
  absl::StatusOr<size_t> PositionOfPs(uint32_t index) const;
  uint64_t epoch() const;  // 0 before the first Claim was granted
  // Returns the number of a new save of this epoch.
  uint64_t NextSave();
  const CoordinatorIdentity& self() const { return options_.self; }
  Role homes() const { return options_.homes; }
  bool IsMirrored() const { return options_.mirrored; }
  // Describes every task: serving, or why not.
  std::string Report() const;
  // Describes the tasks that do not answer now, or all if each does.
  std::string ReportMissing() const;
  // Returns the pairs of tasks that do not reach each other while the coordinator reaches both: "no
  // worker reaches ps:0", "worker:1 and ps:0 do not reach each other".
  std::vector<std::string> ReportApart() const;
  // Tasks that should have answered by now: those that may be what a call waits for.
  struct Silent {
    TaskId task;
    absl::Duration since;  // infinite: it does not serve
  };
  std::vector<Silent> silent() const;

 private:
  Cluster(World world, Options options);
  std::string AddressOf(TaskId task) const;
  std::string AddressOfLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  proto::AttachRequest MakeAttachLocked(uint64_t epoch, TaskId task) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns 0 if the incarnation is not known.
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
  // Return task indices of homes, ascending: all that are to have a copy, or those that have one.
  std::vector<int> HomesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> HomesInStepLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLeavesACopyLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const Options options_;
  LossWatches loss_watches_;
  mutable Mutex mutex_;
  WorkerRoster roster_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool claiming_ ABSL_GUARDED_BY(mutex_) = false;  // from Claim until it is granted
  uint64_t last_save_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<ReachWatch> reach_;                       // constant after Create
  std::set<int> dropped_ ABSL_GUARDED_BY(mutex_);           // homes without a copy
  std::map<int, uint64_t> joined_ ABSL_GUARDED_BY(mutex_);  // homes that got one, in this order
  uint64_t last_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> joining_ ABSL_GUARDED_BY(mutex_);              // homes that never had one
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;               // changes that have begun
  int open_changes_ ABSL_GUARDED_BY(mutex_) = 0;               // changes that have not ended
  std::shared_ptr<EpochClaim> claim_ ABSL_GUARDED_BY(mutex_);  // shared with its calls
  std::map<TaskId, std::shared_ptr<TaskConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, LeavingWorker> leaving_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, TaskLink> links_ ABSL_GUARDED_BY(mutex_);  // serving tasks
  // A ps that served under an incarnation holds variables; another incarnation has lost them.
  std::map<TaskId, uint64_t> first_incarnation_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadyWait> ready_waits_ ABSL_GUARDED_BY(mutex_);
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);  // why nothing waits any more
  absl::Status superseded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
