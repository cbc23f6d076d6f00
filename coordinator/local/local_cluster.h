#pragma once

// The embedded default of `coordinator --local ps=2,worker=3`: the coordinator starts the other
// daemons itself, as real processes on free loopback ports with TF_CONFIG, restarts those that die,
// and stops them at the end. A child binds port 0 and writes the address it got to a file in the
// state directory.
//
// Children outlive a coordinator that is killed. The next one with the same state directory adopts
// those that it would have started in the same way, and ends the others; a child to which no
// coordinator comes ends by itself after the orphan time-out.

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

// Thread-safe. Shared: its timers hold it.
class LocalCluster : public std::enable_shared_from_this<LocalCluster> {
 public:
  struct Options {
    int ps = 0;
    int workers = 0;
    // Where the daemons lie, as `cohort-ps` and `cohort-worker` or as `ps` and `worker`. Empty: the
    // directory of this program or, if they are not there, PATH, which has them by the longer
    // names only: other programs are called ps.
    std::string binary_directory;
    std::string state_directory;  // see StateDirectory
    int worker_threads = 1;
    TransportKind transport = TransportKind::kAuto;
    absl::Duration start_timeout = absl::Seconds(30);
    absl::Duration orphan_timeout = absl::Seconds(30);  // zero: children never end by themselves
  };

  // Returns when every child listens and those that are not wanted have ended. Errors: NOT_FOUND
  // (a binary); DEADLINE_EXCEEDED or FAILED_PRECONDITION naming the child and its log file; those
  // of StateDirectory.
  static absl::StatusOr<std::shared_ptr<LocalCluster>> Start(World world, Waiter& waiter,
                                                             Options options);

  ClusterSpec spec() const;
  // Returns the present address: a restarted child has another port.
  std::string Address(TaskId task) const;
  std::map<TaskId, pid_t> pids() const;

  // Adds a worker under the lowest index that is free here and not in `taken`. Its address is known
  // once it listens. Errors: those of StartChild and StateDirectory; CANCELLED after Stop.
  absl::StatusOr<TaskId> AddWorker(const std::set<int>& taken);
  // Asks the child to end, and sees to it. Nothing for a task that is no child.
  void RemoveWorker(TaskId task);

  // Sends SIGTERM, gives the children up to `grace` to drain, then sends SIGKILL. Blocks on
  // `waiter`.
  void Stop(Waiter& waiter, absl::Duration grace);
  // Sends SIGKILL, for a process that has no more time.
  void Kill() { Signal(SIGKILL); }

 private:
  struct Child {
    std::optional<SupervisedProcess> process;
    std::string address;  // empty until it listens
    int restarts = 0;
    absl::Time started_at;
    absl::Time restart_at = absl::InfinitePast();  // set while there is no process
  };
  // A process of the coordinator before, or of a worker that was removed, asked to end.
  struct Leftover {
    SupervisedProcess process;
    absl::Time kill_at;
  };

  LocalCluster(World world, Options options, std::unique_ptr<StateDirectory> directory);
  absl::Status Begin();
  // Signals every child and leftover; none is started any more.
  void Signal(int signal);
  absl::Status TakeOverLocked(const std::map<TaskId, StateDirectory::Record>& records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Spawn(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll();
  void PollLeftoversLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PollChildLocked(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEndLocked(TaskId task, Child& child, const std::string& how)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(TaskId task);
  std::vector<std::string> Settings(Role role) const;
  absl::Status FindPrograms();
  std::string WhyNotAdopt(TaskId task, const StateDirectory::Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TfConfig(TaskId task) const;

  const World world_;
  const Options options_;
  const std::unique_ptr<StateDirectory> directory_;
  std::map<Role, std::string> programs_;  // constant after Start
  Event listening_;                       // every child listens
  Event ended_;                           // stopping, and every child has ended
  mutable Mutex mutex_;
  std::map<TaskId, Child> children_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, Leftover> leftovers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status start_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
