#pragma once

// The state behind a TaskService. The service's calls share the state, and the state outlives the
// service while a Watch call is open.

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
  uint64_t incarnation = 0;   // identifies one start of the process
  uint64_t memory_bytes = 0;  // memory that the process may use; 0 for unknown
  EpochGrant granted;         // the grant of an earlier start of the task
  // Runs before an epoch is granted, for one epoch at a time. An error refuses the Attach. May
  // block.
  std::function<absl::Status(const EpochGrant&)> on_grant;
  // Runs before the answer to an accepted Attach, in the order of epochs; must not block. Also runs
  // when the holder repeats its Attach, because peers may have moved to other addresses.
  std::function<void(const proto::AttachRequest&)> on_attach;
  // Runs once, after the answer to the first Shutdown of the attached epoch; must not block.
  std::function<void()> on_shutdown;
  // How long no coordinator may be heard before the task is orphaned; zero means for ever.
  absl::Duration orphan_timeout = absl::ZeroDuration();
  // Runs once, on the clock's thread, when the task is orphaned; must not block. Does not run when
  // the task is already stopping.
  std::function<void()> on_orphaned;
};

// The state that a TaskService's calls share. Attach runs on the strand, so that on_attach sees
// epochs in order. Thread-safe.
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
  // Starts to count the time until the task is orphaned.
  void StartOrphanWatch();

 private:
  static proto::TaskRef RefOf(const TaskOptions& options);
  using WatchReply = TypedReply<proto::WatchResponse>;
  struct Waiter {
    WatchReply reply;
    TimerId timer;
  };

  void AttachOnStrand(const proto::AttachRequest& request, TypedReply<proto::AttachResponse> reply);
  // Grants the epoch of the request to the request's coordinator. Returns the epoch that was
  // attached before. Runs only on the strand. Errors: UNAVAILABLE from a task that is stopping:
  // otherwise its coordinator would keep sending work that the task refuses.
  absl::StatusOr<uint64_t> TakeEpoch(const proto::AttachRequest& request);
  void Wake(uint64_t waiter);
  std::vector<WatchReply> TakeWaiters();
  // Records that the coordinator was heard from at `now`. Returns true if the caller must set the
  // orphan timer to `now` plus the timeout after it has released the lock.
  bool HeardLocked(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetOrphanTimer(absl::Time due);
  void OnOrphanTimer();
  absl::Status Stale(absl::string_view what) const;
  Envelope<proto::WatchResponse> WatchAnswerLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers every open Watch with the current state.
  void WakeAll();
  // Logs each task that has stopped reaching this task, and each task that reaches it again, since
  // the last Watch request.
  void LogUnreachedBy(const proto::WatchRequest& request);

  Clock& clock_;
  const proto::TaskRef ref_;
  const TaskOptions options_;
  Strand strand_;

  mutable Mutex mutex_;
  // The attached epoch; 0 if no coordinator has attached since this process started.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  TaskHold hold_ ABSL_GUARDED_BY(mutex_);  // the hold of `epoch_`, or of an earlier start
  proto::TaskState state_ ABSL_GUARDED_BY(mutex_) = proto::SERVING;
  // The version of `unreached_`, sent as WatchResponse.reach.
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<proto::TaskRef> unreached_ ABSL_GUARDED_BY(mutex_);
  // The names of the tasks that do not reach this task, according to the coordinator.
  std::set<std::string> unreached_by_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the holder lets a stopping task go with Shutdown (AttachRequest.lets_go).
  bool lets_go_ ABSL_GUARDED_BY(mutex_) = false;
  // How long a stopping task waits for Shutdown, as told to Watch; zero if it does not wait.
  absl::Duration leaves_in_ ABSL_GUARDED_BY(mutex_);
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
