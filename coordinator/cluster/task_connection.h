#pragma once

// The coordinator's side of one task: it attaches the task (tells it whom it serves), keeps one
// Watch call open, and attaches again when the task was lost. The states:
//
//   connecting --Attach ok--> serving --Watch fails, drains, or suspect--> connecting
//
// Attach is tried again with back-off for ever: a task that is gone may come back, under a new
// incarnation.
//
// A task is lost when its process refuses several Attach calls in a row (killed: within half a
// second), or when nothing came from it for a lease (cut off, stopped). Slow is not dead: what
// answers within the lease is never lost.

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

// Channels to a serving task: one for heartbeats and state, one for closures and tensors.
struct TaskLink {
  proto::TaskRef task;
  std::string address;
  uint64_t memory_bytes = 0;  // memory that a home's process may have; 0: it does not say
  std::shared_ptr<Channel> control;
  std::shared_ptr<Channel> data;
};

// Errors: FAILED_PRECONDITION when another task answers at the address.
absl::Status CheckAnswers(TaskId task, const std::string& address, const proto::TaskRef& answers);

// Thread-safe. Shared: open calls and timers hold it.
class TaskConnection : public std::enable_shared_from_this<TaskConnection> {
 public:
  struct Options {
    TaskId task;
    std::function<std::string()> address;  // asked before each Attach: a restarted task may move
    absl::Duration lease = absl::Seconds(5);
    // Run outside the lock and must not block, one at a time and in the order of events, on any
    // thread: the news of a loss always precedes that of the return. on_lost follows each on_ready
    // at most once.
    std::function<void(const TaskLink&)> on_ready;
    std::function<void(const absl::Status&)> on_lost;
    // Tells that the task was asked to end, and serves on for `patience` or until `let_go`, after
    // which it is lost. Runs outside the lock and must not block. Null: it is lost at once.
    std::function<void(absl::Duration patience, absl::AnyInvocable<void()> let_go)> on_leaving;
    // Tells that another coordinator holds the task. Runs outside the lock, must not block; may be
    // repeated.
    std::function<void(const absl::Status&)> on_superseded;
    // Tells the peers that the task does not reach, all of them, when these have changed. Runs
    // outside the lock and must not block; may be null.
    std::function<void(const proto::TaskRef& task, const std::vector<proto::TaskRef>& peers)>
        on_unreached;
    // Returns the tasks that do not reach this one, which is told with each Watch. May be null.
    std::function<std::vector<proto::TaskRef>()> unreached_by;
  };

  static std::shared_ptr<TaskConnection> Create(World world, Options options);

  // Attaches, also a task that serves already: under the request's epoch. on_lost does not run for
  // the attachment before.
  void Renew(proto::AttachRequest attach);
  // Forgets the attachment; nothing runs until Renew.
  void Suspend();
  // Keeps callbacks from running for what happens after this.
  void Stop();
  // Checks whether the task is still there after a failed call to this incarnation. Attaches again
  // if it is the held one.
  void Suspect(uint64_t incarnation, const absl::Status& cause);

  bool IsServing() const;
  // Returns "serving since …" or the error of the last Attach.
  std::string Describe() const;
  // Returns the time since the task last answered, if that is longer than it should be; else zero.
  absl::Duration silence() const;

 private:
  TaskConnection(World world, Options options);

  // `round` is the one in which a loop of attempts began.
  using OnFailure = void (TaskConnection::*)(uint64_t round, const absl::Status& error);
  void SendAttach(uint64_t round, proto::AttachRequest request, absl::Duration timeout,
                  OnFailure on_failure);
  void OnAttached(uint64_t round, const TaskLink& link);
  // Tells news; a thread that comes while another one tells leaves its news to that one.
  using News = absl::AnyInvocable<void()>;
  void TellLocked(News news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAll();
  // Attaches a task that is not there (yet), one attempt after another.
  void Attach(uint64_t round);
  void OnAttachFailed(uint64_t round, const absl::Status& error);
  // Probes a suspect, at fixed times.
  void Probe(uint64_t round);
  void OnProbeFailed(uint64_t round, const absl::Status& error);
  void DeclareLost(uint64_t round);
  void Watch(uint64_t generation);
  void OnWatched(uint64_t generation, absl::StatusOr<proto::WatchResponse> response);
  // Returns whether the task says for the first time that it leaves.
  bool BeginLeaving(uint64_t generation);
  void LetGo(uint64_t generation);
  enum class Certainty { kSuspected, kGone };
  void Lose(uint64_t generation, const absl::Status& cause, Certainty certainty);

  const World world_;
  const Options options_;
  mutable Mutex mutex_;
  proto::AttachRequest attach_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // counts Renew and Suspend
  absl::Time last_contact_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;     // on_ready ran, and on_lost not since
  int refused_attempts_ ABSL_GUARDED_BY(mutex_) = 0;  // since it is a suspect
  absl::Time suspect_until_ ABSL_GUARDED_BY(mutex_);  // then it is lost
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;   // counts successful attachments
  uint64_t leaving_ ABSL_GUARDED_BY(mutex_) = 0;      // the generation that leaves
  TaskLink link_ ABSL_GUARDED_BY(mutex_);
  uint64_t reach_ ABSL_GUARDED_BY(mutex_) = 0;  // WatchResponse.reach of this attachment
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  // News still to be told, by rounds. News of an earlier round are not told any more.
  std::deque<std::pair<uint64_t, News>> news_ ABSL_GUARDED_BY(mutex_);
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;  // a thread is at it
};

}  // namespace cohort
