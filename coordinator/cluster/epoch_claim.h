#pragma once

// The claim of a new epoch by a coordinator. First every task is asked which epoch it holds. Then
// the parameter servers are attached one after another, in index order, under an epoch above all of
// these. A server grants an epoch to the first coordinator that claims it. So if two coordinators
// claim the same epoch, one of them is refused by the first server, before it holds any.
//
// The claim waits for parameter servers, because a lost server may come back. Workers are asked
// too, but only those that answer at once are considered, so that a worker left behind by an
// earlier job can be taken over. All tasks are asked again as long as the claim lasts, so that
// LastError tells which tasks do not answer now.
//
// The claim also waits for a task that is kept for another job (common/task/task_hold.h), until the
// task is free or the other job is seen to live. A task whose coordinator was killed becomes free
// after its lease. If the task has heard from its coordinator between two answers, that job lives,
// and the claim ends with an error.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

// The facts that a coordinator tells the tasks about itself.
struct CoordinatorIdentity {
  uint64_t incarnation = 0;
  proto::JobRef job;
  // True: the coordinator takes over even tasks of other jobs that are still alive.
  bool take_over = false;
  absl::Duration lease = absl::Seconds(5);
  std::string place = {};  // where a user finds this process; empty: the tasks are not told
};

// Makes the part of an Attach request that identifies the coordinator.
proto::AttachRequest MakeAttach(const CoordinatorIdentity& self, uint64_t epoch);

// Returns the error, of class STALE, for a coordinator that was replaced by another coordinator of
// its job. `cause` is the error with which a task refused a call.
absl::Status TakenOver(const absl::Status& cause);

// One attempt to claim a new epoch. Thread-safe. Shared: open calls and timers hold it.
class EpochClaim : public std::enable_shared_from_this<EpochClaim> {
 public:
  struct Options {
    std::vector<TaskId> ps;       // homes of variables, in index order
    std::vector<TaskId> workers;  // workers that are not homes of variables
    // Returns a task's address. Called before each call, because a restarted task may have moved.
    std::function<std::string(TaskId)> address;
    uint64_t floor = 0;  // the new epoch is larger than this number
    // The epoch that this coordinator has held until now. If another coordinator has a higher epoch
    // by now, it has taken over: the claim ends and takes nothing back. 0: this coordinator has
    // held no epoch, and takes over any holder of a task.
    uint64_t held = 0;
    CoordinatorIdentity self;
    absl::Duration call_timeout = absl::Seconds(1);
  };
  // Receives the epoch that every ps has granted. Errors: of class STALE, naming the coordinator
  // that holds a server; FAILED_PRECONDITION of class CONFIGURATION, naming another live job that
  // holds a task.
  using Done = absl::AnyInvocable<void(absl::StatusOr<uint64_t>)>;

  static std::shared_ptr<EpochClaim> Create(World world, Options options, Done done);
  void Start();
  // Ends the claim: `done` runs with the error, unless the claim has already ended.
  void Abort(const absl::Status& why) { Finish(why); }
  // Takes a home out of the claim, which then neither waits for the home nor attaches it.
  void Leave(TaskId home);
  // Cancels the claim: `done` does not run any more, unless it is running now.
  void Cancel();
  // Returns the error of the latest finished call to a task. OK: the task answered, or no call has
  // finished.
  absl::Status LastError(TaskId task) const;
  // Returns the incarnation of the ps process that has granted the epoch. 0: the ps has not granted
  // it yet.
  uint64_t IncarnationOf(TaskId ps) const;

 private:
  using Answer = absl::StatusOr<proto::GetStatusResponse>;

  EpochClaim(World world, Options options, Done done);
  void Probe(TaskId task);
  bool IsHome(TaskId task) const;
  bool HasLeft(TaskId task) const;
  // Returns whether the answer shows that another coordinator has taken over; in that case ends the
  // claim.
  bool IsTakenOver(const Answer& answer);
  // Returns whether the task is kept for another job. If that job is seen to live, ends the claim.
  bool IsKept(TaskId task, const Answer& answer);
  void OnProbed(TaskId task, const Answer& answer);
  // Records a task's answer. Returns true if this was the last awaited answer, so that the caller
  // must begin to attach the ps.
  bool CountLocked(TaskId task, const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Attaches options_.ps[position] and all later ps, one after another.
  void Attach(size_t position);
  void OnAttached(size_t position, const absl::StatusOr<proto::AttachResponse>& answer);
  void Finish(absl::StatusOr<uint64_t> result);
  void Later(absl::Duration wait, absl::AnyInvocable<void()> retry);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // null: the claim is finished or cancelled
  std::set<TaskId> unanswered_ ABSL_GUARDED_BY(mutex_);
  std::set<TaskId> left_ ABSL_GUARDED_BY(mutex_);
  uint64_t highest_ ABSL_GUARDED_BY(mutex_);
  // The epoch under which the ps are being attached; 0: attaching has not begun.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskId, absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);
  // The last answer of each task that is kept for another job.
  std::map<TaskId, proto::GetStatusResponse> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
