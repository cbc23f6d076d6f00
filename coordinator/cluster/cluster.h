#pragma once

// All tasks of the job as the coordinator sees them: which tasks serve, at which address, under
// which incarnation, and in which epoch. Cluster is the only writer of the epoch: Claim starts a
// new epoch, in which no call of an older epoch changes anything. The coordinator never connects to
// evaluators.
//
// Workers may come and go while the job runs, within the limits of worker_roster.h. An added worker
// is attached at once, or by the Claim that is under way; later Claims keep the worker. A removed
// worker is no longer a member as soon as RemoveWorker is called, but its connection stays until
// its closures in flight have ended.
//
// The homes of the variables are the tasks of one role: parameter servers or, in strategies without
// parameter servers, workers. The word "ps" below means a home of either role; a worker that is a
// home and is lost counts as both a lost worker and a lost home. If all homes have copies of the
// same variables, a home that is out of step (coordinator/recovery/copies.h) does not count as a
// home until it gets a new copy. An added worker does not count as a home either, even after a
// Claim, until it has got its first copy. A removed worker is no home any more; the last home that
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
  // Returns the present address of a task. Without this function the address in the spec is used.
  std::function<std::string(TaskId)> address;
  // Callbacks, from here on: they run outside the lock and must not block.
  // follows the news of the home's earlier loss
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
  // The worker is a new member that has to get a copy.
  std::function<void(int worker)> on_home_added;
  // The error has class PS_LOST and names the home.
  std::function<void(const absl::Status&)> on_ps_lost;
  std::string ps_lost_remedy;  // advice to the user, which ends the text of a PS_LOST error
  // Tells which tasks have to stand idle because pairs of tasks do not reach each other. May be
  // repeated.
  std::function<void(const Apart&)> on_apart;
  // Tells that another coordinator holds a task, with an error of class STALE. Does not run for
  // workers that were added after the start.
  std::function<void(const absl::Status&)> on_superseded;
};

// A worker that is being removed: no longer a member, but still watched.
struct LeavingWorker {
  Member member;
  std::shared_ptr<TaskConnection> connection;  // null: the worker was never attached
};

// A wait until every home and at least `min_workers` workers serve.
struct ReadyWait {
  int min_workers = 0;
  absl::AnyInvocable<void(absl::Status)> done;
};

// Watches for the loss of tasks. A caller sets a watch because its call to a lost task would take
// longer to time out. Thread-safe.
class LossWatches {
 public:
  // The callback of a watch, which runs once, outside the lock.
  using Lost = absl::AnyInvocable<void(absl::Status)>;

  // Watches one task or, without a task, all homes of variables. Returns the number of the watch.
  uint64_t Add(std::optional<TaskId> task, Lost lost);
  // Ends a watch: its callback `lost` does not run any more, unless it is running now.
  void Forget(uint64_t watch);
  // Runs and ends the watches of the task or, without a task, the watches of homes.
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

  // The state of a task, as people are shown it.
  struct TaskStatus {
    TaskId task;
    std::string address;
    uint64_t incarnation = 0;  // incarnation of a serving task, else 0
    bool serving = false;
    bool leaving = false;  // removed, but closures are still in flight
    // "worker:1 serves at …", or the reason why the task does not serve.
    std::string text;
  };

  static std::shared_ptr<Cluster> Create(World world, Options options);
  ~Cluster();

  // Ends the present epoch, waits for every ps, claims on all of them the next epoch above `floor`
  // (epoch_claim.h), and attaches all tasks under the new epoch. `done` gets the new epoch, before
  // the tasks serve. A later Claim replaces one that is under way, whose `done` then does not run.
  // Errors: those of EpochClaim; Abort's.
  void Claim(uint64_t floor, absl::AnyInvocable<void(absl::StatusOr<uint64_t>)> done);
  // Drops the callbacks of waiting Claim and WhenReady calls when the coordinator ends. A later
  // WhenReady gets CANCELLED.
  void Stop();
  // Returns OK while this coordinator holds the tasks, as far as any task has said. Returns an
  // error of class STALE after another coordinator has taken them over.
  absl::Status superseded() const;
  // Ends every present and later wait for tasks with the error `why`.
  void Abort(const absl::Status& why);
  // Returns the error with which every wait for tasks ends; OK while waits are possible.
  absl::Status ended() const;
  // Runs `done` once when every ps and at least `min_workers` workers serve, in this epoch or a
  // later one. Errors: of class STALE when another coordinator has taken over; that of Abort.
  void WhenReady(int min_workers, absl::AnyInvocable<void(absl::Status)> done);
  // Runs `lost` once when the task is lost or, without a task, when any home is lost. Runs it at
  // once if the loss has already happened. Returns the number of the watch.
  uint64_t WatchLoss(std::optional<TaskId> task, LossWatches::Lost lost);
  void ForgetWatch(uint64_t watch) { loss_watches_.Forget(watch); }
  void SuspectWorker(int worker, uint64_t incarnation);
  void SuspectPs(int ps);
  // Notes that a worker did not reach the ps. The ps is suspected unless the coordinator itself
  // hears it.
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
  // Returns the homes that write a checkpoint: every ps or, of mirrored homes, the first alone.
  absl::StatusOr<std::vector<TaskLink>> savers() const;
  int num_savers() const { return options_.mirrored ? 1 : num_ps(); }
  // Notes that the home no longer has a valid copy. Does nothing while an epoch is being claimed,
  // because all homes are put back afterwards. Returns whether another home has a copy.
  bool DropHome(int index);
  // Notes that the process has a valid copy again, which includes the first `changes` changes.
  // Returns false, and changes nothing, if the coordinator itself has changed variables since, or
  // is changing them, or if another process serves in the home's place.
  bool TakeHome(int index, const proto::TaskRef& process, uint64_t changes);
  bool IsMember(TaskId task) const;
  // Returns whether the worker reaches all members of the group, as far as is known.
  bool MayJoin(int index) const;
  // Enclose a call by which the coordinator changes variables. BeginChange comes before ps() is
  // asked for the homes to call.
  void BeginChange();
  void EndChange();
  uint64_t changes() const;
  // Returns links to all tasks that serve now.
  std::vector<TaskLink> serving() const;
  // Returns whether the task answers, as far as is known: the task serves and is not suspected.
  bool IsReached(TaskId task) const;
  int num_ps() const;
  // Returns the position in ps() of the parameter server with this task index. Errors:
  // INVALID_ARGUMENT naming the servers that the cluster has.
  absl::StatusOr<size_t> PositionOfPs(uint32_t index) const;
  uint64_t epoch() const;  // 0 before the first Claim has been granted
  // Returns a new number for a save or a staged restore, larger than all earlier ones.
  uint64_t NextSave();
  const CoordinatorIdentity& self() const { return options_.self; }
  Role homes() const { return options_.homes; }
  bool IsMirrored() const { return options_.mirrored; }
  // Describes every task: where it serves, or why it does not serve.
  std::string Report() const;
  // Describes the tasks that do not answer now, or all tasks if each of them answers.
  std::string ReportMissing() const;
  // Returns the pairs of tasks that do not reach each other while the coordinator reaches both: "no
  // worker reaches ps:0", "worker:1 and ps:0 do not reach each other".
  std::vector<std::string> ReportApart() const;
  // A task that should have answered by now, and so may be the task that a call waits for.
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
  // Return task indices of homes, ascending: the homes that should have a copy (HomesLocked), and
  // those of them that have one now (HomesInStepLocked).
  std::vector<int> HomesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> HomesInStepLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLeavesACopyLocked(TaskId task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const Options options_;
  LossWatches loss_watches_;
  mutable Mutex mutex_;
  WorkerRoster roster_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool claiming_ ABSL_GUARDED_BY(mutex_) = false;  // from Claim until the epoch is granted
  uint64_t last_save_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<ReachWatch> reach_;              // watches pairs of tasks; constant after Create
  std::set<int> dropped_ ABSL_GUARDED_BY(mutex_);  // homes whose copy is not valid now
  // Homes that got a later copy, numbered in order.
  std::map<int, uint64_t> joined_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> joining_ ABSL_GUARDED_BY(mutex_);  // added workers that never had a copy
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;   // changes by the coordinator that have begun
  int open_changes_ ABSL_GUARDED_BY(mutex_) = 0;   // changes by the coordinator that have not ended
  // The last claim; shared with its calls.
  std::shared_ptr<EpochClaim> claim_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, std::shared_ptr<TaskConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, LeavingWorker> leaving_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, TaskLink> links_ ABSL_GUARDED_BY(mutex_);  // links to the tasks that serve
  // The incarnation under which each ps first served. A ps of another incarnation has lost the
  // variables.
  std::map<TaskId, uint64_t> first_incarnation_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadyWait> ready_waits_ ABSL_GUARDED_BY(mutex_);
  // The reason why no wait is possible any more; OK: waits are possible.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status superseded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
