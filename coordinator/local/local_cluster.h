#pragma once

// The cluster of `coordinator --local ps=2,worker=3`. The coordinator itself starts the other
// daemons with TF_CONFIG, as real processes on free loopback ports, restarts children that die, and
// stops all of them at the end. A child binds port 0 and writes its resulting address to a file in
// the state directory.
//
// A child that dies is restarted after a delay that doubles with each death. While the cluster
// starts, a child that dies again and again before it listens ends the start; later, its restarts
// go on, because the other tasks may do its work.
//
// Children outlive a coordinator that is killed. The next coordinator with the same state directory
// adopts the children whose program and arguments are the same, and ends the other children. A
// child that no coordinator calls ends by itself after the orphan time-out.

#include <signal.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/world.h"
#include "coordinator/local/child_process.h"
#include "coordinator/local/state_directory.h"

namespace cohort {

// The child processes of a local cluster, and their supervision. Thread-safe. Shared: its timers
// hold it.
class LocalCluster : public std::enable_shared_from_this<LocalCluster> {
 public:
  struct Options {
    int ps = 0;
    int workers = 0;
    // The directory of the daemons, which are called `cohort-ps` and `cohort-worker`, or `ps` and
    // `worker`. Empty: the directory of this program or, if that contains no daemons, PATH. In PATH
    // only the longer names count, because other programs are called ps.
    std::string binary_directory;
    std::string state_directory;  // where the tasks are recorded (StateDirectory)
    int worker_threads = 1;
    TransportKind transport = TransportKind::kAuto;
    absl::Duration start_timeout = absl::Seconds(30);
    // Time after which a child without a coordinator ends; zero: it never ends by itself.
    absl::Duration orphan_timeout = absl::Seconds(30);
  };

  // Starts or adopts the children. Returns when every child has listened and every other process of
  // an earlier coordinator has ended. Errors: NOT_FOUND (a binary); FAILED_PRECONDITION for a child
  // that died kDeathsBeforeListeningMax times in a row before it listened, and DEADLINE_EXCEEDED
  // for children that did not listen in time, both naming children, log files, last words and
  // remedy; those of StateDirectory.
  static absl::StatusOr<std::shared_ptr<LocalCluster>> Start(World world, Waiter& waiter,
                                                             Options options);

  static constexpr int kDeathsBeforeListeningMax = 5;

  ClusterSpec spec() const;
  // Returns the present address of a child, which changes with each restart.
  std::string Address(TaskId task) const;
  std::map<TaskId, pid_t> pids() const;

  // Adds a worker under the lowest index that no child has and that is not in `taken`.
  // Address(task) returns its address once the worker listens. Errors: those of StartChild and
  // StateDirectory; CANCELLED after Stop.
  absl::StatusOr<TaskId> AddWorker(const std::set<int>& taken);
  // Asks the process of a worker to end, and kills it if it does not end in time. Does nothing for
  // a task that is not a child.
  void RemoveWorker(TaskId task);

  // Sends SIGTERM to all children, waits at most `grace` for them to end, then sends SIGKILL.
  // Blocks on `waiter`.
  void Stop(Waiter& waiter, absl::Duration grace);
  // Sends SIGKILL to all children, for a coordinator that must end now.
  void Kill() { Signal(SIGKILL); }

 private:
  struct Child {
    std::optional<SupervisedProcess> process;
    std::string address;  // address of the child; empty until the child listens
    int restarts = 0;
    int deaths_before_listening = 0;  // deaths in a row of processes that never listened
    std::string last_death;           // how the last process ended; empty if none has ended
    uint64_t log_begin = 0;           // size of the log file when the process was started
    absl::Time started_at;
    // When the task gets a new process, if it has none.
    absl::Time restart_at = absl::InfinitePast();
  };
  // A process that was asked to end: an earlier coordinator started it and it was not adopted, or
  // its worker was removed.
  struct Leftover {
    SupervisedProcess process;
    absl::Time kill_at;
  };

  LocalCluster(World world, Options options, std::unique_ptr<StateDirectory> directory);
  absl::Status Begin();
  // Signals every child, and every process that was asked to end. From this call on, no child is
  // started.
  void Signal(int signal);
  absl::Status TakeOverLocked(const std::map<TaskId, StateDirectory::Record>& records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Spawn(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll();
  void PollLeftoversLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PollChildLocked(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEndLocked(TaskId task, Child& child, const std::string& how)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Describes how the process of a child has ended: the manner, its last words and its log file.
  std::string Death(TaskId task, const Child& child, const std::string& how) const;
  // Describes what Start still waits for.
  std::string Awaited() const;
  void Forget(TaskId task);
  std::vector<std::string> Settings(Role role) const;
  absl::Status FindPrograms();
  std::string WhyNotAdopt(TaskId task, const StateDirectory::Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TfConfig(TaskId task) const;

  const World world_;
  const Options options_;
  const std::unique_ptr<StateDirectory> directory_;
  std::map<Role, std::string> programs_;  // paths of the daemons; constant after Start
  Event listening_;                       // happens when every child listens
  Event ended_;                           // happens when every child has ended after Stop or Kill
  mutable Mutex mutex_;
  std::map<TaskId, Child> children_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, Leftover> leftovers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status start_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
