#pragma once

// A cluster of real processes beside the benchmark's own program.

#include <memory>
#include <string>

#include "common/base/event.h"
#include "common/wire/route/real_world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/local/local_cluster.h"
#include "tests/support/temp_directory.h"

namespace cohort::bench {

// Thread-compatible; the tasks end with it.
class LocalRun {
 public:
  struct Options {
    int ps = 1;
    int workers = 1;
    int closures_in_flight = 2;
    TransportKind transport = TransportKind::kAuto;
    int worker_threads = 1;            // that each computes with
    std::string state_directory = "";  // empty: one of its own
    // Between two recovery checkpoints; zero: losses are errors.
    absl::Duration recovery_interval = absl::ZeroDuration();
    size_t recovery_interval_closures = 0;  // 0: only time counts
    bool mirrored = false;  // no ps: every worker has all variables, and gangs run on all of them
  };

  static absl::StatusOr<std::unique_ptr<LocalRun>> Start(Options options);
  ~LocalRun();

  World world() { return world_.world(); }
  Waiter& waiter() { return waiter_; }
  ClusterCoordinator& coordinator() { return *coordinator_; }
  const LocalCluster& tasks() const { return *tasks_; }

 private:
  explicit LocalRun(TransportKind transport) : world_(2, transport) {}

  TempDirectory directory_{"cohort-bench"};  // outlives the tasks
  RealWorld world_;
  BlockingWaiter waiter_;
  std::shared_ptr<LocalCluster> tasks_;  // shared with its timers
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

// Where this program and the daemons lie.
std::string BinaryDirectory();

}  // namespace cohort::bench
