#pragma once

// Claims a new epoch for a coordinator. Every task is asked which epoch it holds, then the
// parameter servers are attached one after another, in index order, under an epoch above all of
// them. A server grants an epoch to the first who claims it, so of two coordinators that claim the
// same one, the loser finds out at the first server, before it holds any.
//
// Parameter servers are waited for: one that is away may come back. Workers that answer at once are
// asked as well, so that one that a former job has left behind can be taken over. All are asked
// again as long as the claim lasts, so that LastError says who does not answer now.
//
// A task that is kept for another job (common/task/task_hold.h) is waited for too, until it is free
// or its job is seen to live: one whose coordinator was killed is free after its lease, and one
// whose coordinator was heard from between two answers is not going to be.

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

// A coordinator's description of itself to tasks.
struct CoordinatorIdentity {
  uint64_t incarnation = 0;
  proto::JobRef job;
  bool take_over = false;  // tasks of other jobs too, also while these live
  absl::Duration lease = absl::Seconds(5);
};

// Makes the part of an Attach that identifies the coordinator.
proto::AttachRequest MakeAttach(const CoordinatorIdentity& self, uint64_t epoch);

// Returns the error of a coordinator that was taken over, made from what a task has told it: of
// class STALE.
absl::Status TakenOver(const absl::Status& cause);

// Thread-safe. Shared: open calls and timers hold it.
class EpochClaim : public std::enable_shared_from_this<EpochClaim> {
 public:
  struct Options {
    std::vector<TaskId> ps;       // homes of variables, in index order
    std::vector<TaskId> workers;  // those that are not homes
    // Returns a task's address; called before each call: a restarted task may move.
    std::function<std::string(TaskId)> address;
    uint64_t floor = 0;  // the epoch is above this one
    // The epoch that this coordinator has held until now. A coordinator with a higher one by now
    // has taken over: the claim ends and takes nothing back. 0: none; any holder of a task is taken
    // over.
    uint64_t held = 0;
    CoordinatorIdentity self;
    absl::Duration call_timeout = absl::Seconds(1);
  };
  // The receiver of the epoch that every ps has granted. Errors: of class STALE, naming who holds
  // which server; FAILED_PRECONDITION of class CONFIGURATION, naming the other job that lives on a
  // task.
  using Done = absl::AnyInvocable<void(absl::StatusOr<uint64_t>)>;

  static std::shared_ptr<EpochClaim> Create(World world, Options options, Done done);
  void Start();
  // Ends the claim: `done` runs with the error, unless the claim has ended.
  void Abort(const absl::Status& why) { Finish(why); }
  // Takes a home out of the claim: it is neither waited for nor attached any more.
  void Leave(TaskId home);
  // Keeps `done` from running, unless it is running now.
  void Cancel();
  // Returns the error of the last call to a task; OK: it answered, or has not been asked yet.
  absl::Status LastError(TaskId task) const;
  // Returns the incarnation of the process that has granted the epoch; 0: none has yet.
  uint64_t IncarnationOf(TaskId ps) const;

 private:
  using Answer = absl::StatusOr<proto::GetStatusResponse>;

  EpochClaim(World world, Options options, Done done);
  void Probe(TaskId task);
  bool IsHome(TaskId task) const;
  bool HasLeft(TaskId task) const;
  // Returns whether another coordinator has taken over; then the claim has ended.
  bool IsTakenOver(const Answer& answer);
  // Returns whether the task is kept for another job. If that job is seen to live, the claim has
  // ended.
  bool IsKept(TaskId task, const Answer& answer);
  void OnProbed(TaskId task, const Answer& answer);
  // Returns whether all awaited tasks have answered, so that the ps are to be attached now.
  bool CountLocked(TaskId task, const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Attaches options_.ps[position] and those after it.
  void Attach(size_t position);
  void OnAttached(size_t position, const absl::StatusOr<proto::AttachResponse>& answer);
  void Finish(absl::StatusOr<uint64_t> result);
  void Later(absl::Duration wait, absl::AnyInvocable<void()> retry);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // empty: finished or cancelled
  std::set<TaskId> unanswered_ ABSL_GUARDED_BY(mutex_);
  std::set<TaskId> left_ ABSL_GUARDED_BY(mutex_);
  uint64_t highest_ ABSL_GUARDED_BY(mutex_);
  // the epoch under which ps are being attached; 0: not yet
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskId, absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);
  // The last answers of tasks that were kept for another job.
  std::map<TaskId, proto::GetStatusResponse> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
