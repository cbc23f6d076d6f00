#pragma once

// The state behind a TaskService: what its calls share, and what outlives the service while one of
// its Watch calls is open.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/cluster/cluster_spec.h"
#include "common/task/task_hold.h"
#include "common/wire/transport.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

struct TaskOptions {
  TaskId task;
  uint64_t incarnation = 0;   // one process start
  uint64_t memory_bytes = 0;  // memory that the process may have; 0: it does not say
  EpochGrant granted;         // the grant of an earlier start of the task
  // Runs before an epoch is granted, one after another; its error refuses the Attach. May block.
  std::function<absl::Status(const EpochGrant&)> on_grant;
  // Runs before the answer to an accepted Attach, in the order of epochs; must not block. A
  // repeat by the holder runs it again: peers may have moved.
  std::function<void(const proto::AttachRequest&)> on_attach;
  // Runs once, after the answer to the first Shutdown of the attached epoch; must not block.
  std::function<void()> on_shutdown;
  absl::Duration orphan_timeout = absl::ZeroDuration();  // zero: never orphaned
  // Runs once, on the clock's thread; must not block. Not when the task ends anyway.
  std::function<void()> on_orphaned;
};

// Thread-safe. Attach runs on the strand, so that on_attach sees epochs in order.
class TaskState : public std::enable_shared_from_this<TaskState> {
 public:
  TaskState(World world, TaskOptions options)
      : clock_(world.clock),
        ref_(RefOf(options)),
        options_(std::move(options)),
        strand_(world.executor),
        hold_(options_.granted, clock_.Now()) {}

  const proto::TaskRef& ref() const { return ref_; }
  absl::Status CheckEpoch(uint64_t epoch) const;
  void Attach(Envelope<proto::AttachRequest> request, TypedReply<proto::AttachResponse> reply);
  void Watch(Envelope<proto::WatchRequest> request, TypedReply<proto::WatchResponse> reply);
  void GetStatus(Envelope<proto::GetStatusRequest> request,
                 TypedReply<proto::GetStatusResponse> reply);
  void Shutdown(Envelope<proto::ShutdownRequest> request,
                TypedReply<proto::ShutdownResponse> reply);
  void Release(Envelope<proto::ReleaseRequest> request, TypedReply<proto::ReleaseResponse> reply);
  void SetUnreached(std::vector<proto::TaskRef> peers);
  void StartLeaving(absl::Duration patience);
  void WaitToLeave(absl::Duration patience);
  void Stop();
  // Begins to count the time until the task is orphaned.
  void StartOrphanWatch();

 private:
  static proto::TaskRef RefOf(const TaskOptions& options);
  using WatchReply = TypedReply<proto::WatchResponse>;
  struct Waiter {
    WatchReply reply;
    TimerId timer;
  };

  void AttachOnStrand(const proto::AttachRequest& request, TypedReply<proto::AttachResponse> reply);
  // Takes the epoch of the request and returns the one that was attached before. Runs on the strand
  // alone. Errors: UNAVAILABLE from a task that ends: its coordinator would otherwise give it work
  // that it refuses, again and again.
  absl::StatusOr<uint64_t> TakeEpoch(const proto::AttachRequest& request);
  void Wake(uint64_t waiter);
  std::vector<WatchReply> TakeWaiters();
  // Notes that the coordinator was heard. Returns true if the caller must set the orphan timer to
  // `now` and the time-out later, once it has left the lock.
  bool HeardLocked(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetOrphanTimer(absl::Time due);
  void OnOrphanTimer();
  absl::Status Stale(absl::string_view what) const;
  Envelope<proto::WatchResponse> WatchAnswerLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers every open Watch with the present state.
  void WakeAll();
  // Logs which of the tasks are new, or are no longer, among those that do not reach this one.
  void LogUnreachedBy(const proto::WatchRequest& request);

  Clock& clock_;
  const proto::TaskRef ref_;
  const TaskOptions options_;
  Strand strand_;

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: this process was not attached
  TaskHold hold_ ABSL_GUARDED_BY(mutex_);       // the hold of epoch_, or of an earlier start
  proto::TaskState state_ ABSL_GUARDED_BY(mutex_) = proto::SERVING;
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;  // WatchResponse.reach
  std::vector<proto::TaskRef> unreached_ ABSL_GUARDED_BY(mutex_);
  // names of tasks, as the coordinator says
  std::set<std::string> unreached_by_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool lets_go_ ABSL_GUARDED_BY(mutex_) = false;      // whether the holder lets the task go
  absl::Duration leaves_in_ ABSL_GUARDED_BY(mutex_);  // zero: it does not wait
  Event heard_of_leave_;
  Event may_leave_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_heard_ ABSL_GUARDED_BY(mutex_);
  bool orphan_timer_set_ ABSL_GUARDED_BY(mutex_) = false;
  bool orphaned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
