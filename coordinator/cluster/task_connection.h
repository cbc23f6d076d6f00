#pragma once

// The coordinator's connection to one task. It attaches the task (tells the task which coordinator
// it serves), keeps one Watch call open, and attaches again when the task was lost. The states:
//
//   connecting --Attach ok--> serving --Watch fails, drains, or suspect--> connecting
//
// Attach is tried again with back-off for ever: a task that is gone may come back, under a new
// incarnation.
//
// A task is lost when its process refuses several Attach calls in a row (the process was killed:
// noticed within half a second), or when nothing came from the task for a lease (the task is cut
// off or stopped). Slow is not dead: a task that answers within the lease is never lost.

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

// The channels to a serving task: one for heartbeats and state, one for closures and tensors.
struct TaskLink {
  proto::TaskRef task;
  std::string address;
  uint64_t memory_bytes = 0;  // memory that a home's process may use; 0: not reported
  std::shared_ptr<Channel> control;
  std::shared_ptr<Channel> data;
};

// Checks that the task that answers at the address is the expected one. Errors: FAILED_PRECONDITION
// when another task answers.
absl::Status CheckAnswers(TaskId task, const std::string& address, const proto::TaskRef& answers);

// The connection to one task, which continues when the task's process is replaced. Thread-safe.
// Shared: open calls and timers hold it.
class TaskConnection : public std::enable_shared_from_this<TaskConnection> {
 public:
  struct Options {
    TaskId task;
    // Returns the task's address, called before each Attach, because a restarted task may have
    // moved.
    std::function<std::string()> address;
    absl::Duration lease = absl::Seconds(5);
    // Tell that the task serves, or that it is lost. The callbacks run outside the lock, on any
    // thread, one at a time and in the order of events, and must not block. A loss is always
    // reported before the task is reported as serving again. on_lost follows each on_ready at most
    // once.
    std::function<void(const TaskLink&)> on_ready;
    std::function<void(const absl::Status&)> on_lost;
    // Tells that the task was asked to end. The task serves on for `patience` or until `let_go` is
    // called, and is then lost. Runs outside the lock and must not block. Null: the task is lost at
    // once.
    std::function<void(absl::Duration patience, absl::AnyInvocable<void()> let_go)> on_leaving;
    // Tells that another coordinator holds the task. Runs outside the lock and must not block; may
    // be repeated.
    std::function<void(const absl::Status&)> on_superseded;
    // Tells which peers the task does not reach, whenever this set has changed. Runs outside the
    // lock and must not block; may be null.
    std::function<void(const proto::TaskRef& task, const std::vector<proto::TaskRef>& peers)>
        on_unreached;
    // Returns the tasks that do not reach this connection's task; each Watch call passes them to
    // the task. May be null.
    std::function<std::vector<proto::TaskRef>()> unreached_by;
  };

  static std::shared_ptr<TaskConnection> Create(World world, Options options);

  // Attaches the task under the epoch of the request, even if the task serves already. on_lost does
  // not run for the earlier attachment.
  void Renew(proto::AttachRequest attach);
  // Forgets the attachment; no callback runs until Renew.
  void Suspend();
  // Stops the connection for good: no callback runs for any later event.
  void Stop();
  // Checks, after a failed call to the process `incarnation`, whether the task is still there, by
  // attaching it again. Does nothing if the connection is to another process.
  void Suspect(uint64_t incarnation, const absl::Status& cause);

  bool IsServing() const;
  // Returns "worker:1 serves at ADDRESS", or why the task does not serve.
  std::string Describe() const;
  // Returns the time since the task last answered, or zero if the task is not overdue. Infinite:
  // the task does not serve.
  absl::Duration silence() const;

 private:
  TaskConnection(World world, Options options);

  // The function to call when an Attach call failed. `round` is the value of round_ when the
  // attempts began.
  using OnFailure = void (TaskConnection::*)(uint64_t round, const absl::Status& error);
  void SendAttach(uint64_t round, proto::AttachRequest request, absl::Duration timeout,
                  OnFailure on_failure);
  void OnAttached(uint64_t round, const TaskLink& link);
  // A queued call of the owner's callbacks. One thread at a time runs queued calls, and other
  // threads only add to the queue, so that the calls keep their order.
  using News = absl::AnyInvocable<void()>;
  void TellLocked(News news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAll();
  // Attaches a task that is not serving, by repeated attempts.
  void Attach(uint64_t round);
  void OnAttachFailed(uint64_t round, const absl::Status& error);
  // Repeatedly tries to attach a suspected task again, until it answers or counts as lost.
  void Probe(uint64_t round);
  void OnProbeFailed(uint64_t round, const absl::Status& error);
  void DeclareLost(uint64_t round);
  void Watch(uint64_t generation);
  void OnWatched(uint64_t generation, absl::StatusOr<proto::WatchResponse> response);
  // Notes that the task is leaving. Returns false if this was known already.
  bool BeginLeaving(uint64_t generation);
  void LetGo(uint64_t generation);
  enum class Certainty { kSuspected, kGone };
  void Lose(uint64_t generation, const absl::Status& cause, Certainty certainty);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  proto::AttachRequest attach_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // counts the calls of Renew and Suspend
  absl::Time last_contact_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  // True while on_ready has run and on_lost has not run since then.
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;
  // Refused Attach calls since the task became a suspect.
  int refused_attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time suspect_until_ ABSL_GUARDED_BY(mutex_);  // when a suspected task counts as lost
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;   // counts attachments and calls of Suspend
  // The value of generation_ in which the task said that it is about to end.
  uint64_t leaving_ ABSL_GUARDED_BY(mutex_) = 0;
  TaskLink link_ ABSL_GUARDED_BY(mutex_);
  // The number of the task's last report of unreached peers; the task counts its reports since it
  // was attached (WatchResponse.reach).
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  // Callbacks still to be run, each with the value of round_ when its event happened. Callbacks of
  // an earlier round are dropped.
  std::deque<std::pair<uint64_t, News>> news_ ABSL_GUARDED_BY(mutex_);
  // Whether a thread is running queued callbacks now.
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
