#pragma once

// The cluster of `coordinator --local ps=2,worker=3`. The coordinator itself starts the other
// daemons with a TF_CONFIG, as processes on free loopback ports. It restarts those that end, and
// stops all of them at the end. Each of these children binds port 0, and writes the address that it
// has got to a file in the state directory.
//
// A child that dies is restarted after a delay that doubles with each death. While the cluster
// starts, a child that dies again and again before it listens ends the start; later, its restarts
// go on, because the other tasks may do its work.
//
// Children outlive a coordinator that is killed. The next coordinator with the same state directory
// adopts the children whose program and arguments are the same, and ends the other children. A
// child that no coordinator calls ends by itself after the orphan time-out.

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/world.h"

namespace cohort {

// The child processes of a local cluster, and their supervision. The supervision outlives this
// object if the children were not stopped. Thread-safe.
class LocalCluster {
 public:
  struct Options {
    int ps = 0;
    int workers = 0;
    // The directory of the daemons' executables, `cohort-ps` and `cohort-worker`, or `ps` and
    // `worker`. If empty, they are looked for in the directory of this executable, and then along
    // PATH, where only the names with "cohort-" count (find_daemon.h).
    std::string binary_directory;
    std::string state_directory;  // where tasks are recorded (state_directory.h)
    int worker_threads = 1;
    TransportKind transport = TransportKind::kAuto;
    absl::Duration start_timeout = absl::Seconds(30);
    // How long a child lives without a coordinator. If zero, it never ends by itself.
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

  ~LocalCluster();

  ClusterSpec spec() const;
  // Returns the present address of a child. Each restart of the child changes it.
  std::string Address(TaskId task) const;
  std::map<TaskId, pid_t> pids() const;

  // Starts a worker, and returns its task. Its index is the lowest that no other child has and that
  // is not in `taken`. Once the worker listens, Address(task) returns its address. Errors: those of
  // StartChild and StateDirectory; CANCELLED after Stop.
  absl::StatusOr<TaskId> AddWorker(const std::set<int>& taken);
  // Tells the process of a worker to end, and kills it if it takes too long. Does nothing if the
  // task is not a child.
  void RemoveWorker(TaskId task);

  // Tells all children to end (SIGTERM), and waits at most `grace` for that. Then kills those that
  // still run (SIGKILL). Blocks the calling thread.
  void Stop(Waiter& waiter, absl::Duration grace);
  // Kills all children at once (SIGKILL), for a coordinator that must not wait.
  void Kill();

 private:
  class Impl;
  explicit LocalCluster(std::shared_ptr<Impl> impl);

  // The supervision of the child processes, shared with its timers.
  const std::shared_ptr<Impl> impl_;
};

}  // namespace cohort
