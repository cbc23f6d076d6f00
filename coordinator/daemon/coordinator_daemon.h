#pragma once

// The coordinator as a program: starts local tasks where asked to, connects to the cluster, trains,
// reports. One job, one run.

#include <memory>
#include <string>

#include "common/base/event.h"
#include "common/cluster/exit_codes.h"
#include "common/wire/world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/daemon/coordinator_options.h"
#include "coordinator/local/local_cluster.h"
#include "coordinator/members/membership_watch.h"
#include "coordinator/train/mnist_files.h"

namespace cohort {

// Thread-compatible, but for Interrupt.
class CoordinatorDaemon {
 public:
  struct Environment {
    std::string binary_directory;  // as LocalCluster takes it
    int processors = 1;
    MnistSearch mnist;
  };

  CoordinatorDaemon(World world, Waiter& waiter, CoordinatorOptions options,
                    Environment environment);

  struct Result {
    ExitCode code = kExitOk;
    std::string output;  // for stdout: the summary
    std::string error;   // for stderr
  };
  // Blocks until the job ended and its tasks have been stopped.
  Result Run();

  // Ends the job with an error as soon as closures in flight have ended, or at once if it waits for
  // a task that is away. With recovery a checkpoint of all that is done is taken first, and the
  // code is kExitInterrupted. Thread-safe.
  void Interrupt(absl::string_view reason);
  // Gives up an interrupted job that did not end in time, as this process ends without it: local
  // tasks are killed. Returns what the job waited for. Thread-safe.
  std::string GiveUp();

 private:
  // The state of an interruption. Shared with the checkpoint that it waits for.
  struct Interruption {
    Mutex mutex;
    ClusterCoordinator* connected ABSL_GUARDED_BY(mutex) = nullptr;  // set while it lives
    absl::Status error ABSL_GUARDED_BY(mutex);                       // that of an interrupted job
    bool kept ABSL_GUARDED_BY(mutex) = false;  // a checkpoint has all that was done
  };
  static void EndInterrupted(Interruption& interruption, const absl::Status& kept);

  absl::StatusOr<std::string> RunJob();
  absl::StatusOr<std::string> RunConnected(ClusterCoordinator& coordinator);
  absl::StatusOr<ClusterCoordinator::Options> ConnectOptions();
  // Returns the directory of recovery checkpoints; empty: none.
  std::string RecoveryDirectory() const;
  // Proves, before anything starts, that what the job is told to write can be written. Errors: the
  // file system's, naming the directory and the field of the job.
  absl::Status ProbeDirectories() const;
  // The activities beside the training, until the job ends.
  struct Operation {
    std::shared_ptr<MembershipWatch> watch;  // shared with its timers
    std::unique_ptr<Server> ctl;
  };
  // Errors: those of listening, where the address was asked for; those of the address file.
  absl::StatusOr<Operation> Operate(ClusterCoordinator& coordinator);
  absl::Status ServeOperators(ClusterCoordinator& coordinator,
                              std::shared_ptr<WorkerChanges> changes, Operation& operation);
  absl::StatusOr<std::string> Train(ClusterCoordinator& coordinator);

  const World world_;
  Waiter& waiter_;
  CoordinatorOptions options_;
  const Environment environment_;
  std::shared_ptr<LocalCluster> local_;  // shared with its timers; set by the job's thread
  SystemHostResolver resolver_;
  Mutex mutex_;
  std::shared_ptr<LocalCluster> to_kill_ ABSL_GUARDED_BY(mutex_);  // local_, for other threads
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();
};

}  // namespace cohort
