#pragma once

// The embedded default of `coordinator --local ps=2,worker=3`: the coordinator starts the other
// daemons itself, as real processes on free loopback ports with TF_CONFIG, restarts those that die,
// and stops them at the end. A child binds port 0 and writes the address it got to a file in the
// state directory.

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/world.h"

namespace cohort {

// Thread-safe. Shared: its timers hold it.
class LocalCluster : public std::enable_shared_from_this<LocalCluster> {
 public:
  struct Options {
    int ps = 0;
    int workers = 0;
    std::string binary_directory;  // where `ps` and `worker` lie
    std::string state_directory;   // addresses and logs of the children
    int worker_threads = 1;
    TransportKind transport = TransportKind::kAuto;
    absl::Duration start_timeout = absl::Seconds(30);
  };

  // Returns when every child listens. Errors: NOT_FOUND (a binary); DEADLINE_EXCEEDED or
  // FAILED_PRECONDITION naming the child and its log file.
  static absl::StatusOr<std::shared_ptr<LocalCluster>> Start(World world, Waiter& waiter,
                                                             Options options);

  ClusterSpec spec() const;
  // The present address: a restarted child has another port.
  std::string Address(TaskId task) const;
  std::map<TaskId, pid_t> pids() const;

  // SIGTERM, up to `grace` to drain, then SIGKILL. Blocks on `waiter`.
  void Stop(Waiter& waiter, absl::Duration grace);

 private:
  struct Child {
    pid_t pid = 0;
    std::string address;     // empty until it listens
    int restarts = 0;
    absl::Time restart_at = absl::InfiniteFuture();
  };

  LocalCluster(World world, Options options);
  absl::Status Spawn(TaskId task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll();
  void PollChildLocked(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AddressFile(TaskId task) const;
  std::string LogFile(TaskId task) const;
  std::string TfConfig(TaskId task) const;

  const World world_;
  const Options options_;
  Event listening_;  // every child listens
  Event ended_;      // stopping, and every child has ended
  mutable Mutex mutex_;
  std::map<TaskId, Child> children_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status start_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
