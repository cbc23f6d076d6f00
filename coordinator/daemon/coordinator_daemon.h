#pragma once

// The coordinator as a program, which runs one job: it starts local tasks if asked to, connects to
// the cluster, trains, and reports the result.

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

// The run of one job. Thread-compatible, except Interrupt and GiveUp.
class CoordinatorDaemon {
 public:
  struct Environment {
    std::string binary_directory;  // the directory of the daemons, as in LocalCluster::Options
    int processors = 1;
    MnistSearch mnist;
    std::string process = {};  // this process and its host, as "process 12 on host a"
  };

  CoordinatorDaemon(World world, Waiter& waiter, CoordinatorOptions options,
                    Environment environment);

  struct Result {
    ExitCode code = kExitOk;
    std::string output;  // the summary of the job, for stdout
    std::string error;   // the error of the job, for stderr
  };
  // Runs the job. Blocks until the job has ended and its tasks have been stopped.
  Result Run();

  // Ends the job with an error as soon as closures in flight have ended, or at once if the job
  // waits for a lost task. With recovery, first takes a checkpoint of all closures that are done;
  // the exit code is then kExitInterrupted. Thread-safe.
  void Interrupt(absl::string_view reason);
  // Gives up an interrupted job that did not end in time, before the process ends without waiting
  // any longer. Kills local tasks. Returns a description of what the job was waiting for.
  // Thread-safe.
  std::string GiveUp();

 private:
  // The state of an interruption. The callback of the last checkpoint shares it.
  struct Interruption {
    Mutex mutex;
    // The coordinator, while it exists; null before and after.
    ClusterCoordinator* connected ABSL_GUARDED_BY(mutex) = nullptr;
    absl::Status error ABSL_GUARDED_BY(mutex);  // the error with which an interrupted job ends
    // True: a checkpoint has everything that was done, and the same command would find it.
    bool kept ABSL_GUARDED_BY(mutex) = false;
    // True: a recovery checkpoint was there when the job started.
    bool resumes ABSL_GUARDED_BY(mutex) = false;
    // The flag that the user must add to the command so that it finds the checkpoints; may be
    // empty.
    std::string needed_flag;
  };
  static void EndInterrupted(Interruption& interruption, const absl::Status& kept);
  // Ends a job of which no last checkpoint can be taken: it has no recovery, or was still starting.
  static void EndWithoutCheckpoint(Interruption& interruption)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(interruption.mutex);

  absl::StatusOr<std::string> RunJob();
  void LetInterruptsReach(ClusterCoordinator& coordinator);
  absl::StatusOr<std::string> RunConnected(ClusterCoordinator& coordinator);
  absl::StatusOr<ClusterCoordinator::Options> ConnectOptions();
  // Starts the tasks of --local and names them in the options. Errors: CONFIGURATION for a state
  // directory that cannot be used and for programs that are not there; WORKER_LOST for tasks that
  // do not start.
  absl::Status StartLocalTasks(ClusterCoordinator::Options& options);
  // Returns the flag with which a new start finds the recovery checkpoints of this run; empty if it
  // needs none.
  std::string FlagOfRecovery() const;
  // Returns where a user finds this coordinator: its process, its host and, if it is known before
  // the service listens, the address for `coordinator ctl`.
  std::string Place() const;
  // Checks, before any task starts, that the job can write to the directories that it names.
  // Errors: the file system's with class CONFIGURATION, naming the directory and the field of the
  // job.
  absl::Status ProbeOutputs() const;
  // The parts that run beside the training: the membership watch and the service for operators.
  struct Operation {
    std::shared_ptr<MembershipWatch> watch;  // the watch, shared with its own timers
    std::unique_ptr<Server> ctl;
  };
  // Starts the service for operators and the watch on the membership list. Errors: those of
  // listening, if the command line names the address; those of writing the address file.
  absl::StatusOr<Operation> Operate(ClusterCoordinator& coordinator);
  absl::Status ServeOperators(ClusterCoordinator& coordinator,
                              std::shared_ptr<WorkerChanges> changes, Operation& operation);
  absl::StatusOr<std::string> Train(ClusterCoordinator& coordinator);

  const World world_;
  Waiter& waiter_;
  CoordinatorOptions options_;
  const Environment environment_;
  // The local tasks. Shared with the timers of LocalCluster; set by the thread that runs the job.
  std::shared_ptr<LocalCluster> local_;
  SystemHostResolver resolver_;
  Mutex mutex_;
  // The same as local_, for threads that call GiveUp.
  std::shared_ptr<LocalCluster> to_kill_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();
};

}  // namespace cohort
