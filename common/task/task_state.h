#pragma once

// The state of a TaskService. The handlers of the service share the state, so that it outlives the
// TaskService while a Watch call is open.

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
  uint64_t incarnation = 0;   // a number that differs in each start of the process
  uint64_t memory_bytes = 0;  // the bytes of memory that the process may use; 0 if unknown
  // The last grant that an earlier process of this task has saved.
  EpochGrant granted;
  // Saves a grant before the task makes it. If saving fails, the task refuses the Attach. Does not
  // run for two grants at the same time. May block.
  std::function<absl::Status(const EpochGrant&)> on_grant;
  // Tells the task about an accepted Attach, before the Attach is answered and in the order of
  // epochs. Must not block. Also runs when the holder repeats its Attach, because the task's peers
  // may have new addresses.
  std::function<void(const proto::AttachRequest&)> on_attach;
  // Begins to stop the task. Runs once, after the answer to the first Shutdown that has the
  // attached epoch; must not block.
  std::function<void()> on_shutdown;
  // The time without a coordinator after which the task is orphaned; zero means that the task is
  // never orphaned.
  absl::Duration orphan_timeout = absl::ZeroDuration();
  // Tells the daemon that its task is orphaned. Runs at most once, on the clock's thread; must not
  // block. Does not run for a task that is already stopping.
  std::function<void()> on_orphaned;
};

// The state that the calls of a TaskService share. Attach calls run on the strand, so that
// on_attach sees epochs in ascending order. Thread-safe.
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
  // Grants the epoch of `request` to the coordinator that has sent the request. Returns the epoch
  // that was attached before. Runs only on the strand. Errors: INVALID_ARGUMENT for epoch 0 and for
  // a coordinator_place above kPlaceBytesMax; those of TaskHold::Check; UNAVAILABLE if on_grant
  // fails, or if this task is stopping, because the coordinator would otherwise send work that the
  // task refuses.
  absl::StatusOr<uint64_t> TakeEpoch(const proto::AttachRequest& request);
  // Returns the coordinator that holds the task, for messages.
  std::string Holder();
  void Wake(uint64_t waiter);
  std::vector<WatchReply> TakeWaiters();
  // Records that the task has heard from its coordinator at `now`. If the function returns true,
  // the caller must release the lock and then call SetOrphanTimer with `now` plus the orphan
  // timeout.
  bool HeardLocked(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetOrphanTimer(absl::Time due);
  void OnOrphanTimer();
  absl::Status Stale(absl::string_view what) const;
  Envelope<proto::WatchResponse> WatchAnswerLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers every open Watch call with the current state.
  void WakeAll();
  // Logs each change of the set request.unreached_by, the tasks that do not reach this task: each
  // task that the coordinator newly reports, and each task that it no longer reports.
  void LogUnreachedBy(const proto::WatchRequest& request);

  Clock& clock_;
  const proto::TaskRef ref_;
  const TaskOptions options_;
  Strand strand_;

  mutable Mutex mutex_;
  // The attached epoch; 0 if no coordinator has attached since this process started.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The hold of a coordinator on the task. Before the first Attach, this is the hold that an
  // earlier process of the task has saved.
  TaskHold hold_ ABSL_GUARDED_BY(mutex_);
  proto::TaskState state_ ABSL_GUARDED_BY(mutex_) = proto::SERVING;
  // The version of `unreached_`, sent as WatchResponse.reach.
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<proto::TaskRef> unreached_ ABSL_GUARDED_BY(mutex_);
  // The names of the tasks that do not reach this task, according to the coordinator.
  std::set<std::string> unreached_by_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the coordinator has promised to end a stopping task with Shutdown
  // (AttachRequest.lets_go).
  bool lets_go_ ABSL_GUARDED_BY(mutex_) = false;
  // How long this task waits for Shutdown once it is stopping; zero if it does not wait. Watch
  // reports this time to the coordinator.
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
