#include "tests/bench/local_run.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/cluster/environment.h"

namespace cohort::bench {

std::string BinaryDirectory() { return DirectoryOf(ExecutablePath()); }

absl::StatusOr<std::unique_ptr<LocalRun>> LocalRun::Start(Options options) {
  std::unique_ptr<LocalRun> run(new LocalRun(options.transport));
  LocalCluster::Options local;
  local.ps = options.ps;
  local.workers = options.workers;
  local.transport = options.transport;
  local.binary_directory = BinaryDirectory();
  local.state_directory =
      options.state_directory.empty() ? run->directory_.path() : options.state_directory;
  auto tasks = LocalCluster::Start(run->world(), run->waiter_, local);
  if (!tasks.ok()) {
    run->directory_.Keep();  // the error names a log
    return tasks.status();
  }
  run->tasks_ = *std::move(tasks);
  ClusterCoordinator::Options connect;
  connect.cluster = run->tasks_->spec();
  connect.closures_in_flight = options.closures_in_flight;
  connect.workers.min = options.workers;
  connect.worker_threads = options.worker_threads;
  connect.address = [tasks = run->tasks_](TaskId task) { return tasks->Address(task); };
  if (options.mirrored) {
    connect.homes = Role::kWorker;
    connect.mirrored = true;
    connect.workers.min = 1;
    if (options.transport == TransportKind::kAuto || options.transport == TransportKind::kShm) {
      connect.shared_memory = Mix64(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
    }
  }
  if (options.recovery_interval > absl::ZeroDuration()) {
    connect.recovery_directory = JoinPath(local.state_directory, "recovery");
    connect.recovery_interval = options.recovery_interval;
    connect.recovery_interval_closures = options.recovery_interval_closures;
    connect.queue_bound = 4096;  // what is scheduled ahead must not outgrow the run
  }
  ASSIGN_OR_RETURN(run->coordinator_,
                   ClusterCoordinator::Connect(run->world(), run->waiter_, connect));
  return run;
}

LocalRun::~LocalRun() {
  coordinator_.reset();
  if (tasks_ != nullptr) tasks_->Stop(waiter_, absl::Seconds(10));
}

}  // namespace cohort::bench
