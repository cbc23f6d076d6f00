#pragma once

// The coordinator's connection to one task. It attaches the task (tells the task which coordinator
// it serves), keeps one Watch call open, and attaches the task again if it was lost. The states:
//
//   connecting --Attach ok--> serving --Watch fails, drains, or suspect--> connecting
//
// Attach is tried again for ever, after growing pauses: a task that is gone may come back, under a
// new incarnation.
//
// A task is lost if its process refuses several Attach calls in a row (the process was killed; this
// is noticed within half a second), or if nothing came from the task for the time of a lease (the
// task is cut off or stopped). A slow task is not lost, as long as it answers within the lease.

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

// A serving task, and the channels to it: `control` for heartbeats and state, `data` for closures
// and tensors.
struct TaskLink {
  proto::TaskRef task;
  std::string address;
  uint64_t memory_bytes = 0;  // memory that the task's process may use, in bytes; 0 if not reported
  std::shared_ptr<Channel> control;
  std::shared_ptr<Channel> data;
};

// Checks that a task listens somewhere, as far as its address tells. Errors: UNAVAILABLE for
// kNowhere, the address of a local task whose process does not listen yet.
absl::Status CheckListens(const std::string& address);

// Checks that the task that answers at `address` is the expected one. Errors: FAILED_PRECONDITION
// if another task answers there.
absl::Status CheckAnswers(TaskId task, const std::string& address, const proto::TaskRef& answers);

// The connection to one task. It continues when the task's process is replaced. Open calls and
// timers share its ownership. Thread-safe.
class TaskConnection : public std::enable_shared_from_this<TaskConnection> {
 public:
  struct Options {
    TaskId task;
    // Returns the task's present address. Called before each Attach, because a restarted task may
    // have a new address.
    std::function<std::string()> address;
    absl::Duration lease = absl::Seconds(5);
    // Called when the task serves, and when it is lost. The callbacks run outside the lock, on any
    // thread, one at a time and in the order of events, and must not block. If the task was lost,
    // on_lost always runs before the next on_ready. Each on_ready is followed by at most one
    // on_lost.
    std::function<void(const TaskLink&)> on_ready;
    std::function<void(const absl::Status&)> on_lost;
    // Called when the task was asked to end. The task continues to serve until `let_go` is called,
    // but at most for `patience`; then it counts as lost. Runs outside the lock and must not block.
    // If the callback is null, the task counts as lost at once.
    std::function<void(absl::Duration patience, absl::AnyInvocable<void()> let_go)> on_leaving;
    // Called when another coordinator holds the task, perhaps several times. Runs outside the lock
    // and must not block.
    std::function<void(const absl::Status&)> on_superseded;
    // Called with the peers that the task does not reach, whenever they have changed. Runs outside
    // the lock and must not block. May be null.
    std::function<void(const proto::TaskRef& task, const std::vector<proto::TaskRef>& peers)>
        on_unreached;
    // A function that returns the tasks that do not reach this connection's task. Each Watch call
    // tells them to the task. May be null.
    std::function<std::vector<proto::TaskRef>()> unreached_by;
  };

  static std::shared_ptr<TaskConnection> Create(World world, Options options);

  // Attaches the task under the epoch of the request, even if the task serves already. on_lost is
  // not called for the earlier attachment.
  void Renew(proto::AttachRequest attach);
  // Forgets that the task is attached. No callback runs until Renew.
  void Suspend();
  // Stops the connection for good. No callback runs for events after this call.
  void Stop();
  // Makes the task a suspect after a call to its process `incarnation` has failed with `cause`:
  // tries to attach it again, to find out whether it is still there. Does nothing if another
  // process of the task serves now.
  void Suspect(uint64_t incarnation, const absl::Status& cause);

  bool IsServing() const;
  // Returns "worker:1 serves at ADDRESS", or a text that says why the task does not serve.
  std::string Describe() const;
  // Returns the time since the task's last answer. Returns zero if an answer is not overdue, and
  // infinity if the task does not serve.
  absl::Duration silence() const;

 private:
  TaskConnection(World world, Options options);

  // The method that runs if an Attach call fails. `round` is the value of round_ when the call was
  // made.
  using OnFailure = void (TaskConnection::*)(uint64_t round, const absl::Status& error);
  void SendAttach(uint64_t round, proto::AttachRequest request, absl::Duration timeout,
                  OnFailure on_failure);
  void OnAttached(uint64_t round, const TaskLink& link);
  // A callback of the owner that is still to be run. Only one thread at a time runs queued
  // callbacks, and other threads add to the queue. So callbacks run in the order of their events.
  using News = absl::AnyInvocable<void()>;
  void TellLocked(News news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAll();
  // Tries to attach a task that is not serving, until it answers.
  void Attach(uint64_t round);
  void OnAttachFailed(uint64_t round, const absl::Status& error);
  // Tries to attach a suspected task again, until it answers or counts as lost.
  void Probe(uint64_t round);
  void OnProbeFailed(uint64_t round, const absl::Status& error);
  void DeclareLost(uint64_t round);
  void Watch(uint64_t generation);
  void OnWatched(uint64_t generation, absl::StatusOr<proto::WatchResponse> response);
  // Notes that the task was asked to end. Returns false if this was noted before.
  bool BeginLeaving(uint64_t generation);
  void LetGo(uint64_t generation);
  enum class Certainty { kSuspected, kGone };
  void Lose(uint64_t generation, const absl::Status& cause, Certainty certainty);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  proto::AttachRequest attach_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // number of calls of Renew and Suspend so far
  absl::Time last_contact_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  // True if on_ready has run, and on_lost has not run since then.
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of refused Attach calls since the task became a suspect.
  int refused_attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  // The time at which the task, if it is a suspect, counts as lost.
  absl::Time suspect_until_ ABSL_GUARDED_BY(mutex_);
  // The number of attachments and of calls of Suspend so far.
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  // The value of generation_ when the task said that it was asked to end.
  uint64_t leaving_ ABSL_GUARDED_BY(mutex_) = 0;
  TaskLink link_ ABSL_GUARDED_BY(mutex_);
  // The number of the task's last report of peers that it does not reach. The task counts its
  // reports since it was attached (WatchResponse.reach).
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  // Callbacks that are still to be run, each with the value of round_ when its event happened. If
  // round_ has changed since, the callback is dropped.
  std::deque<std::pair<uint64_t, News>> news_ ABSL_GUARDED_BY(mutex_);
  // True while a thread runs queued callbacks.
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
