#pragma once

// The claim of a new epoch by a coordinator. First every task is asked which epoch it knows. Then
// the parameter servers are attached one after another, in the order of their indices, under an
// epoch that is higher than all epochs that the tasks know. A server grants an epoch to the first
// coordinator that claims it. So if two coordinators claim the same epoch, the first server refuses
// one of them, before that coordinator holds any server.
//
// The claim waits for parameter servers, because a lost server may come back. Workers are asked as
// well, so that a worker with the epoch of an earlier job can be taken over, but workers that do
// not answer at once are not awaited. All tasks are asked again as long as the claim lasts, so that
// LastError tells which tasks do not answer now.
//
// The claim also waits for a task that is kept for another job (common/task/task_hold.h), until the
// task is free or the other job is known to be alive. A task whose coordinator was killed becomes
// free after its lease. If a task has heard from its coordinator between two answers to the claim,
// the job of that coordinator is alive, and the claim ends with an error.

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

// The facts about itself that a coordinator tells the tasks.
struct CoordinatorIdentity {
  uint64_t incarnation = 0;
  proto::JobRef job;
  // If true, the coordinator takes over tasks even from a coordinator of another job that is still
  // alive.
  bool take_over = false;
  absl::Duration lease = absl::Seconds(5);
  // The place where a user finds the coordinator's process, for messages of the tasks. May be
  // empty.
  std::string place = {};
};

// Makes the part of an Attach request that identifies the coordinator.
proto::AttachRequest MakeAttach(const CoordinatorIdentity& self, uint64_t epoch);

// Returns the error, of class STALE, of a coordinator whose job another coordinator has taken over.
// `cause` is the error with which a task has refused a call.
absl::Status TakenOver(const absl::Status& cause);

// One attempt to claim a new epoch. Open calls and timers share its ownership. Thread-safe.
class EpochClaim : public std::enable_shared_from_this<EpochClaim> {
 public:
  struct Options {
    std::vector<TaskId> ps;       // homes of variables, in index order
    std::vector<TaskId> workers;  // workers that are not homes of variables
    // Returns the present address of a task. Called before each call, because a restarted task may
    // have a new address.
    std::function<std::string(TaskId)> address;
    uint64_t floor = 0;  // the new epoch must be higher than this number
    // The epoch that this coordinator has held until now, or 0 if it has held none. If a task knows
    // a higher epoch of another coordinator, that coordinator has taken over, and the claim ends
    // without effect. A coordinator that has held no epoch takes tasks over from any holder.
    uint64_t held = 0;
    CoordinatorIdentity self;
    absl::Duration call_timeout = absl::Seconds(1);
  };
  // Callback that gets the epoch that every ps has granted. Errors: an error of class STALE, naming
  // the coordinator that holds a server; FAILED_PRECONDITION of class CONFIGURATION, naming another
  // live job that holds a task; the error of Abort.
  using Done = absl::AnyInvocable<void(absl::StatusOr<uint64_t>)>;

  static std::shared_ptr<EpochClaim> Create(World world, Options options, Done done);
  void Start();
  // Ends the claim: `done` gets the error `why`, unless the claim has ended already.
  void Abort(const absl::Status& why) { Finish(why); }
  // Takes a home out of the claim: the claim does not wait for the home and does not attach it.
  void Leave(TaskId home);
  // Cancels the claim: `done` will not be called any more, but may be running now.
  void Cancel();
  // Returns the error of the last call to the task that has ended. Returns OK if the task answered,
  // or if no call has ended.
  absl::Status LastError(TaskId task) const;
  // Returns the incarnation of the process of a ps that has granted the epoch, or 0 if the ps has
  // not granted it yet.
  uint64_t IncarnationOf(TaskId ps) const;

 private:
  using Answer = absl::StatusOr<proto::GetStatusResponse>;

  EpochClaim(World world, Options options, Done done);
  void Probe(TaskId task);
  bool IsHome(TaskId task) const;
  bool HasLeft(TaskId task) const;
  // If the answer shows that another coordinator has taken over, ends the claim and returns true.
  // Otherwise returns false.
  bool IsTakenOver(const Answer& answer);
  // Returns whether the task is kept for another job. If that job is known to be alive, ends the
  // claim.
  bool IsKept(TaskId task, const Answer& answer);
  void OnProbed(TaskId task, const Answer& answer);
  // Records the answer of a task. Returns true if no other answer is awaited, so that the caller
  // must begin to attach the ps.
  bool CountLocked(TaskId task, const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Attaches options_.ps[position], and then the ps after it, one after another.
  void Attach(size_t position);
  void OnAttached(size_t position, const absl::StatusOr<proto::AttachResponse>& answer);
  void Finish(absl::StatusOr<uint64_t> result);
  void Later(absl::Duration wait, absl::AnyInvocable<void()> retry);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // the completion; null once the claim has ended
  std::set<TaskId> unanswered_ ABSL_GUARDED_BY(mutex_);
  std::set<TaskId> left_ ABSL_GUARDED_BY(mutex_);
  uint64_t highest_ ABSL_GUARDED_BY(mutex_);
  // The epoch under which the ps are attached, or 0 if attaching has not begun.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskId, absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);
  // The last answer of each task that is kept for another job.
  std::map<TaskId, proto::GetStatusResponse> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
