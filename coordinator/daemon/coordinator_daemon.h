#pragma once

// The coordinator's daemon, which runs one job: it starts local tasks if the options say so,
// connects to the cluster, trains, and reports the result.

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

// Runs one job. Thread-compatible, except Interrupt and GiveUp, which are thread-safe.
class CoordinatorDaemon {
 public:
  struct Environment {
    std::string binary_directory;  // directory of the daemons' executables
    int processors = 1;
    MnistSearch mnist;
    std::string process = {};  // this process, such as "process 12 on host a"
  };

  CoordinatorDaemon(World world, Waiter& waiter, CoordinatorOptions options,
                    Environment environment);

  struct Result {
    ExitCode code = kExitOk;
    std::string output;  // for stdout: the job's summary
    std::string error;   // for stderr: the job's error
  };
  // Runs the job. Blocks until the job has ended and its tasks have been stopped.
  Result Run();

  // Ends the job with an error. With recovery, first takes a checkpoint of all closures that are
  // done; the exit code is then kExitInterrupted. The job ends once no closure is in flight, at
  // once if it waits for a lost task, and in any case when a part of the drain time is over: on a
  // slow link a closure may need far longer, and the tasks have to be told to end. Without a
  // checkpoint, the exit code is then kExitDrainTimeout. Thread-safe.
  void Interrupt(absl::string_view reason);
  // The end of an interrupted job that has not ended in time.
  struct GivenUp {
    ExitCode code = kExitDrainTimeout;
    std::string waits_for;  // what the job was waiting for
    std::string error;      // for stderr: the job's error, which says what was kept
  };
  // Ends an interrupted job that has not ended in time: kills local tasks. The process then ends
  // without waiting any longer. Thread-safe.
  GivenUp GiveUp();

 private:
  // The state of an interruption by a signal. Shared with the callback of the last checkpoint.
  struct Interruption {
    Mutex mutex;
    // The coordinator of the job, or null while there is none.
    ClusterCoordinator* connected ABSL_GUARDED_BY(mutex) = nullptr;
    absl::Status error ABSL_GUARDED_BY(mutex);  // the error with which an interrupted job ends
    // True if a checkpoint contains all that was done, and the same command would find it.
    bool kept ABSL_GUARDED_BY(mutex) = false;
    // True if there was a recovery checkpoint when the job started.
    bool resumes ABSL_GUARDED_BY(mutex) = false;
    // The thing that the job waited for when it ended with closures in flight and no checkpoint;
    // empty if it was not.
    std::string late ABSL_GUARDED_BY(mutex);
    // The flag that a user has to add to the command line so that the next start finds the recovery
    // checkpoints. May be empty.
    std::string needed_flag;
  };
  static void EndInterrupted(Interruption& interruption, const absl::Status& kept);
  // Ends an interrupted job of which no last checkpoint can be taken, because it has no recovery or
  // was still starting.
  void EndWithoutCheckpoint(Interruption& interruption)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(interruption.mutex);
  // Ends an interrupted job without a checkpoint whose closures in flight have used up their time.
  static void EndLate(Interruption& interruption);

  absl::StatusOr<std::string> RunJob();
  void LetInterruptsReach(ClusterCoordinator& coordinator);
  absl::StatusOr<std::string> RunConnected(ClusterCoordinator& coordinator);
  absl::StatusOr<ClusterCoordinator::Options> ConnectOptions();
  // Starts the tasks of --local and names them in the options. Errors: CONFIGURATION for a state
  // directory that cannot be used and for programs that are not there; WORKER_LOST for tasks that
  // do not start.
  absl::Status StartLocalTasks(ClusterCoordinator::Options& options);
  // Returns the flag that the next start needs to find this job's recovery checkpoints, or an empty
  // text if it needs none.
  std::string FlagOfRecovery() const;
  // Returns where a user finds this coordinator: its process, its host and, if it is known before
  // the service for operators listens, the address of that service.
  std::string Place() const;
  // Checks, before any task starts, that the job can write to the directories that it names.
  // Errors: the file system's with class CONFIGURATION, naming the directory and the field of the
  // job.
  absl::Status ProbeOutputs() const;
  // Locks the directory of recovery checkpoints, so that no coordinator of other tasks removes this
  // job's. Waits up to `patience` for a coordinator that has been taken over and is about to end.
  // Errors of class CONFIGURATION: FAILED_PRECONDITION naming the coordinator that has the lock;
  // those of the file system.
  absl::Status LockRecovery(absl::Duration patience);
  // The parts that run beside the training: the membership watch, and the service for operators.
  struct Operation {
    std::shared_ptr<MembershipWatch> watch;  // the watch, shared with its own timers
    std::unique_ptr<Server> ctl;
  };
  // Starts the service for operators and the membership watch. Errors: those of listening, if the
  // user has given the address of the service; those of writing the file with this address.
  absl::StatusOr<Operation> Operate(ClusterCoordinator& coordinator);
  absl::Status ServeOperators(ClusterCoordinator& coordinator,
                              std::shared_ptr<WorkerChanges> changes, Operation& operation);
  absl::StatusOr<std::string> Train(ClusterCoordinator& coordinator);

  const World world_;
  Waiter& waiter_;
  CoordinatorOptions options_;
  const Environment environment_;
  // The local tasks, or null if there are none. Set and used by the thread that runs the job.
  // Shared with timers.
  std::shared_ptr<LocalCluster> local_;
  SystemHostResolver resolver_;
  std::unique_ptr<FileLock> recovery_lock_;
  Mutex mutex_;
  // The local tasks, for GiveUp, which runs on another thread.
  std::shared_ptr<LocalCluster> to_kill_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();
};

}  // namespace cohort
