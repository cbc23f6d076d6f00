#include "coordinator/daemon/coordinator_daemon.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/daemon/job_paths.h"
#include "coordinator/members/ctl_service.h"
#include "coordinator/members/membership_source.h"
#include "coordinator/strategy/multi_worker_mirrored_strategy.h"
#include "coordinator/train/job_settings.h"
#include "coordinator/train/trainer.h"

namespace cohort {

namespace {

// After an interruption, this fraction of the drain time is for closures in flight to end, and the
// same fraction again for their checkpoint. The rest is for the tasks to end.
constexpr double kKeepPart = 0.4;
// After an interruption, each farewell call may take this fraction of the drain time: two calls in
// a row fit into the rest.
constexpr double kFarewellPart = 0.1;
// A coordinator that has been taken over has this time to end.
constexpr absl::Duration kLockPatience = absl::Seconds(5);
constexpr absl::Duration kLockRetry = absl::Milliseconds(200);

// Returns the exit code of a job that has failed with `status`. It depends on the error's class.
ExitCode CodeOf(const absl::Status& status) {
  switch (ClassOf(status)) {
    case proto::PS_LOST:
    case proto::WORKER_LOST:
      return kExitLostCluster;
    case proto::CONFIGURATION:
      return kExitBadConfig;
    default:
      return kExitJobFailed;
  }
}

// Returns the error with the class `error_class`, unless it has a class already.
absl::Status WithDefaultClass(const absl::Status& status, proto::ErrorClass error_class) {
  if (status.ok() || ClassOf(status) != proto::ERROR_CLASS_UNKNOWN) return status;
  proto::ErrorDetail detail;
  detail.set_error_class(error_class);
  return WithDetail(status, detail);
}

// Adapts the options of a job whose variables live in its workers. Without mirrored training, such
// a worker can neither join nor leave the job.
void KeepHomes(const JobSpec& job, TransportKind transport, ClusterCoordinator::Options& options) {
  if (options.homes != Role::kWorker) return;
  options.mirrored = job.strategy.type == kMultiWorkerMirrored;
  options.nccl_device = NcclDeviceOf(job.strategy);
  // The plan is made for at most the present number of workers, so no further workers may join. If
  // the job file sets a lower maximum, that stays.
  const int workers = options.cluster.NumTasks(Role::kWorker);
  if (workers < options.workers.max) {
    options.workers.max = workers;
    options.workers.max_of_strategy = job.strategy.type;
  }
  if (!options.mirrored) options.workers.min = options.workers.max;
  // Shared memory is used only if the job's transport is auto or shm.
  const bool shares = transport == TransportKind::kAuto || transport == TransportKind::kShm;
  if (!options.mirrored || !shares) return;
  std::random_device random;
  // The number is random, and `| 1` keeps it from being 0, which would mean no shared memory.
  options.shared_memory = (uint64_t{random()} << 32) | random() | 1;
}

// Returns what a user can do about the loss of a home in a job without recovery. `has_place` says
// whether there is a directory in which recovery checkpoints would lie.
std::string LossRemedy(const JobSpec& job, bool has_place) {
  const char* const start = job.checkpoint.directory.empty()
                                ? "the job begins anew when it is started again"
                                : "start the job again with checkpoint.restore=latest";
  const char* const recover = job.recovery.enabled ? "name a recovery.directory"
                              : has_place          ? "set recovery.enabled=true"
                                                   : "set recovery.enabled=true and name a "
                                                     "recovery.directory";
  return absl::StrCat(start, "; ", recover, ", so that it goes on by itself");
}

}  // namespace

CoordinatorDaemon::CoordinatorDaemon(World world, Waiter& waiter, CoordinatorOptions options,
                                     Environment environment)
    : world_(world),
      waiter_(waiter),
      options_(std::move(options)),
      environment_(std::move(environment)) {
  interruption_->needed_flag = FlagOfRecovery();
}

CoordinatorDaemon::Result CoordinatorDaemon::Run() {
  absl::StatusOr<std::string> summary = RunJob();
  // The local tasks are stopped in any case, even if the job has failed.
  if (local_ != nullptr) local_->Stop(waiter_, options_.drain_timeout);
  Result result;
  if (summary.ok()) {
    result.output = absl::StrCat(*summary, "\n");
    return result;
  }
  result.code = CodeOf(summary.status());
  std::string late;
  // If another error has ended the job before the interruption could, the exit code is that of this
  // error.
  if (absl::IsCancelled(summary.status())) {
    MutexLock lock(interruption_->mutex);
    late = interruption_->late;
    if (!late.empty()) result.code = kExitDrainTimeout;
    if (interruption_->kept) result.code = kExitInterrupted;
  }
  if (!late.empty()) Log(LogLevel::kError, "drain_timeout", {{"waits_for", late}});
  result.error = absl::StrCat("error: ", summary.status().message(), "\n");
  return result;
}

void CoordinatorDaemon::Interrupt(absl::string_view reason) {
  MutexLock lock(interruption_->mutex);
  interruption_->error =
      MakeError(absl::StatusCode::kCancelled, absl::StrCat("the job was interrupted by ", reason),
                proto::CANCELLED);
  ClusterCoordinator* const connected = interruption_->connected;
  if (connected == nullptr) return;
  // The checkpoint may take only a part of the drain time. The tasks need the rest to end.
  const bool waits = connected->CheckpointAndHold(
      options_.drain_timeout * kKeepPart,
      [interruption = interruption_](absl::Status kept) { EndInterrupted(*interruption, kept); });
  if (!waits) EndWithoutCheckpoint(*interruption_);
}

void CoordinatorDaemon::EndWithoutCheckpoint(Interruption& interruption) {
  // No last checkpoint can be taken: the job has no recovery, or was still starting. If a recovery
  // checkpoint existed when it started, it was still starting, so that checkpoint has all that was
  // done.
  if (interruption.resumes) {
    interruption.kept = interruption.needed_flag.empty();
    interruption.error = MakeError(
        absl::StatusCode::kCancelled,
        absl::StrCat(interruption.error.message(),
                     " while it started; its recovery checkpoint has all that was done: the same "
                     "command",
                     interruption.needed_flag, " goes on from it"),
        proto::CANCELLED);
  }
  interruption.connected->Abort(interruption.error);
  world_.clock.CallAt(world_.clock.Now() + 2 * kKeepPart * options_.drain_timeout,
                      [interruption = interruption_] { EndLate(*interruption); });
}

void CoordinatorDaemon::EndLate(Interruption& interruption) {
  MutexLock lock(interruption.mutex);
  if (interruption.connected == nullptr) return;
  interruption.late = interruption.connected->ClusterReport();
  interruption.connected->EndNow(interruption.error);
}

void CoordinatorDaemon::EndInterrupted(Interruption& interruption, const absl::Status& kept) {
  MutexLock lock(interruption.mutex);
  // The job may have ended while the checkpoint was written. Then there is nothing to end.
  if (interruption.connected == nullptr) return;
  // The exit code kExitInterrupted tells a restart policy that the same command continues the job.
  interruption.kept = kept.ok() && interruption.needed_flag.empty();
  const std::string what =
      kept.ok() ? absl::StrCat("; a recovery checkpoint has all that was done: the same command",
                               interruption.needed_flag, " goes on from it")
                : absl::StrCat("; the same command", interruption.needed_flag,
                               " goes on from the last recovery checkpoint, if there is one, and "
                               "what was done since runs again: ",
                               kept.message());
  interruption.error =
      MakeError(absl::StatusCode::kCancelled, absl::StrCat(interruption.error.message(), what),
                proto::CANCELLED);
  // Closures in flight are not waited for: those that the checkpoint does not have run again, and
  // the next coordinator's epoch refuses what they still push.
  interruption.connected->EndNow(interruption.error);
}

CoordinatorDaemon::GivenUp CoordinatorDaemon::GiveUp() {
  {
    MutexLock lock(mutex_);
    if (to_kill_ != nullptr) to_kill_->Kill();
  }
  MutexLock lock(interruption_->mutex);
  const ClusterCoordinator* const connected = interruption_->connected;
  GivenUp result;
  if (interruption_->kept) result.code = kExitInterrupted;
  result.waits_for =
      connected == nullptr ? "its tasks to start or to end" : connected->ClusterReport();
  if (!interruption_->error.ok()) {
    result.error = absl::StrCat("error: ", interruption_->error.message(), "\n");
  }
  return result;
}

absl::StatusOr<std::string> CoordinatorDaemon::RunJob() {
  RETURN_IF_ERROR(ProbeOutputs());
  ASSIGN_OR_RETURN(ClusterCoordinator::Options options, ConnectOptions());
  // Nobody else can take over local tasks, so who has the lock has tasks of its own.
  if (local_ != nullptr) RETURN_IF_ERROR(LockRecovery(absl::ZeroDuration()));
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> coordinator =
      ClusterCoordinator::Create(world_, waiter_, std::move(options));
  RETURN_IF_ERROR(WithDefaultClass(coordinator.status(), proto::CONFIGURATION));
  LetInterruptsReach(**coordinator);
  const absl::Status ready = WithDefaultClass((*coordinator)->WaitForCluster(), proto::WORKER_LOST);
  absl::StatusOr<std::string> summary =
      ready.ok() ? RunConnected(**coordinator) : absl::StatusOr<std::string>(ready);
  bool interrupted = false;
  {
    MutexLock lock(interruption_->mutex);
    // The coordinator object is destroyed soon, so a signal must not call it any more.
    interruption_->connected = nullptr;
    interrupted = !interruption_->error.ok();
  }
  // An interrupted process has little time left.
  const absl::Duration patience =
      interrupted ? std::min(kFarewellTimeout, kFarewellPart * options_.drain_timeout)
                  : kFarewellTimeout;
  if (local_ != nullptr) {
    // Local tasks are not told to end here: LocalCluster::Stop() ends them.
    (*coordinator)->Leave(Farewell::kKeep, patience).IgnoreError();
    return summary;
  }
  // If the cluster never became ready, its tasks stay, so that the next coordinator finds them.
  const bool is_over = ready.ok() || interrupted;
  const absl::Status left =
      (*coordinator)
          ->Leave(is_over && !options_.keep_tasks ? Farewell::kShutDown : Farewell::kKeep,
                  patience);
  // If another coordinator has taken over the job, this is the cause of the other errors, so it is
  // reported.
  if (!left.ok() && !summary.ok() && !interrupted) return left;
  return summary;
}

void CoordinatorDaemon::LetInterruptsReach(ClusterCoordinator& coordinator) {
  // If the state of an earlier coordinator cannot be read, nothing is reported here: the job will
  // fail with this error when it resumes.
  const absl::StatusOr<std::optional<proto::CoordinatorState>> left = coordinator.LeftState();
  MutexLock lock(interruption_->mutex);
  interruption_->connected = &coordinator;
  interruption_->resumes = left.ok() && left->has_value();
  // If the signal came before the coordinator existed, the job is ended now.
  if (!interruption_->error.ok()) EndWithoutCheckpoint(*interruption_);
}

absl::Status CoordinatorDaemon::LockRecovery(absl::Duration patience) {
  const std::string directory = RecoveryDirectoryOf(PlacesOf(options_));
  if (directory.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(world_.files.MakeDirectories(directory));
  const std::string path = JoinPath(directory, kRecoveryLockFile);
  const absl::Time end = world_.clock.Now() + patience;
  while (true) {
    absl::StatusOr<std::unique_ptr<FileLock>> lock = world_.files.Lock(path, environment_.process);
    if (lock.ok()) {
      recovery_lock_ = *std::move(lock);
      return absl::OkStatus();
    }
    // Some network file systems have no locks. Such a directory is used without one.
    if (absl::IsUnimplemented(lock.status())) {
      Log(LogLevel::kInfo, "recovery_not_locked", {{"cause", lock.status().message()}});
      return absl::OkStatus();
    }
    if (!absl::IsFailedPrecondition(lock.status())) {
      return WithDefaultClass(Annotate(lock.status(), "recovery.directory"), proto::CONFIGURATION);
    }
    if (world_.clock.Now() >= end) {
      return MakeError(
          lock.status().code(),
          absl::StrCat("the recovery directory ", directory,
                       " is in use by another coordinator: ", lock.status().message(),
                       "; wait for its end, or give this job another recovery.directory"),
          proto::CONFIGURATION);
    }
    const Event never;
    waiter_.Wait(never, kLockRetry);
  }
}

absl::StatusOr<std::string> CoordinatorDaemon::RunConnected(ClusterCoordinator& coordinator) {
  if (local_ == nullptr) {
    // An earlier coordinator of these tasks may be stopped, and have the lock as long as it lives.
    // Its epoch keeps it from this job's checkpoints. One that has tasks of its own is not kept.
    const absl::Status locked = LockRecovery(kLockPatience);
    if (!locked.ok()) {
      Log(LogLevel::kError, "recovery_directory_not_locked", {{"cause", locked.message()}});
    }
  }
  ASSIGN_OR_RETURN(Operation operation, Operate(coordinator));
  absl::StatusOr<std::string> summary = Train(coordinator);
  operation.ctl.reset();  // the members of an ended job must not change
  if (operation.watch != nullptr) operation.watch->Stop();
  if (!options_.ctl_address_file.empty()) {
    world_.files.Remove(options_.ctl_address_file).IgnoreError();
  }
  return summary;
}

absl::StatusOr<ClusterCoordinator::Options> CoordinatorDaemon::ConnectOptions() {
  const JobSpec& job = options_.job;
  ClusterCoordinator::Options options;
  options.job = job.name;
  options.settings = SettingsOf(job);
  // This coordinator holds the lock of the state directory. So the earlier coordinator of its local
  // tasks has ended, and the tasks may be taken over.
  options.take_over = options_.take_over || options_.local.has_value();
  options.place = Place();
  options.seed = job.seed;
  options.closures_in_flight = static_cast<int>(job.fit.closures_in_flight);
  options.homes = HomesOf(job.strategy);
  const auto* bounded = std::get_if<BoundedStalenessSpec>(&job.strategy.consistency);
  if (bounded != nullptr && options.homes == Role::kPs) {
    options.steps_ahead_max = static_cast<uint64_t>(bounded->steps);
  }
  options.queue_bound = static_cast<size_t>(job.cluster.queue_size);
  options.attempts_max = static_cast<uint32_t>(job.cluster.max_attempts);
  options.quarantine_after = static_cast<size_t>(job.cluster.quarantine_after);
  options.quarantine = job.cluster.skip_quarantined ? Quarantine::kSkip : Quarantine::kFail;
  options.connect_timeout = job.cluster.connect_timeout;
  options.lease = job.cluster.lease_timeout;
  options.call_timeout = job.cluster.call_timeout;
  options.workers.min = static_cast<int>(job.cluster.min_workers);
  if (job.cluster.max_workers) options.workers.max = static_cast<int>(*job.cluster.max_workers);
  ASSIGN_OR_RETURN(options.checkpoint_mode, CheckpointModeFromName(job.checkpoint.mode));
  options.recovery_directory = RecoveryDirectoryOf(PlacesOf(options_));
  const bool has_place = options_.local.has_value() || !job.recovery.directory.empty() ||
                         !job.checkpoint.directory.empty();
  options.loss_remedy = LossRemedy(job, has_place);
  options.recovery_interval = job.recovery.interval;
  options.recovery_interval_closures = static_cast<size_t>(job.recovery.interval_steps);
  options.redo_max = static_cast<size_t>(job.recovery.max_steps);
  options.has_application_state = true;  // the state is the trainer's progress
  if (!options_.local.has_value()) {
    options.cluster = options_.cluster;
    KeepHomes(job, options_.transport, options);
    return options;
  }
  RETURN_IF_ERROR(StartLocalTasks(options));
  KeepHomes(job, options_.transport, options);
  return options;
}

absl::Status CoordinatorDaemon::StartLocalTasks(ClusterCoordinator::Options& options) {
  const absl::Status usable = ProbeDirectory(world_.files, options_.state_directory);
  if (!usable.ok()) {
    return WithDefaultClass(
        Annotate(usable, "--state_dir: name a directory that can be made and written to"),
        proto::CONFIGURATION);
  }
  LocalCluster::Options local;
  local.ps = options_.local->ps;
  local.workers = options_.local->workers;
  local.binary_directory = environment_.binary_directory;
  local.state_directory = options_.state_directory;
  // All workers run on this machine and share its processors.
  local.worker_threads = std::max(1, environment_.processors / local.workers);
  options.worker_threads = local.worker_threads;
  local.transport = options_.transport;
  local.orphan_timeout = options_.orphan_timeout;
  absl::StatusOr<std::shared_ptr<LocalCluster>> started =
      LocalCluster::Start(world_, waiter_, std::move(local));
  // A daemon's program that is not there, or a file of the directory that is another user's, is for
  // the user to mend: no new start would help.
  const bool misused =
      absl::IsNotFound(started.status()) || absl::IsPermissionDenied(started.status());
  RETURN_IF_ERROR(
      WithDefaultClass(started.status(), misused ? proto::CONFIGURATION : proto::WORKER_LOST));
  local_ = *std::move(started);
  {
    MutexLock lock(mutex_);
    to_kill_ = local_;
  }
  options.cluster = local_->spec();
  options.one_machine = true;
  options.address = [local = local_](TaskId task) { return local->Address(task); };
  Log(LogLevel::kInfo, "local_tasks_started", {{"state_dir", options_.state_directory}});
  return absl::OkStatus();
}

std::string CoordinatorDaemon::FlagOfRecovery() const {
  const JobSpec& job = options_.job;
  // The job file names the directory of recovery checkpoints. Every start of the job finds it
  // without a flag.
  if (!job.recovery.directory.empty() || !job.checkpoint.directory.empty()) return "";
  if (!options_.state_directory_is_new) return "";
  return absl::StrCat(" with --state_dir ", options_.state_directory);
}

std::string CoordinatorDaemon::Place() const {
  // The service for operators listens on all interfaces of the machine or, with local tasks, on a
  // port that the system chooses. So the address in a message is the one that the user gave, or the
  // chief's address in TF_CONFIG.
  const absl::StatusOr<std::string> chief = options_.cluster.Address(TaskId{Role::kChief, 0});
  const std::string address = options_.ctl_required ? options_.ctl_address : chief.value_or("");
  if (options_.ctl_address.empty() || address.empty()) return environment_.process;
  return absl::StrCat(environment_.process, ", ctl address ", address);
}

absl::Status CoordinatorDaemon::ProbeOutputs() const {
  const JobSpec& job = options_.job;
  const bool recovers =
      job.recovery.enabled && !(job.recovery.directory.empty() && job.checkpoint.directory.empty());
  const auto probe = [&](auto how, absl::string_view key, const std::string& path,
                         absl::string_view remedy) {
    const absl::Status probed = path.empty() ? absl::OkStatus() : how(world_.files, path);
    // It follows from the job file and this machine's disks, and nothing has begun.
    return probed.ok() ? probed
                       : MakeError(probed.code(),
                                   absl::StrCat(options_.job_file, ": ", key, ": ",
                                                probed.message(), "; ", remedy),
                                   proto::CONFIGURATION);
  };
  RETURN_IF_ERROR(probe(ProbeDirectory, "checkpoint.directory", job.checkpoint.directory,
                        "name a directory that can be written to, or leave it out "
                        "(checkpoint.restore takes a prefix without it)"));
  RETURN_IF_ERROR(probe(ProbeDirectory, "recovery.directory",
                        recovers ? RecoveryDirectoryOf(PlacesOf(options_)) : "",
                        "name a directory that can be written to, or set recovery.enabled=false"));
  for (const auto& [key, path] : job.export_to.Files()) {
    RETURN_IF_ERROR(probe(ProbeFile, key, path, "name a path that can be written to"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CoordinatorDaemon::Train(ClusterCoordinator& coordinator) {
  ASSIGN_OR_RETURN(DataSources sources, FindDataSources(world_, waiter_, options_.job.data,
                                                        environment_.mnist, options_.job.seed));
  Trainer trainer(world_, waiter_, coordinator, options_.job, std::move(sources));
  ASSIGN_OR_RETURN(const TrainSummary summary, trainer.Run());
  if (const absl::Status forgotten = coordinator.ForgetState(); !forgotten.ok()) {
    // If recovery checkpoints could not be removed, the trained model is not affected. But the next
    // start of the job would resume from them.
    Log(LogLevel::kWarning, "recovery_not_removed",
        {{"cause", forgotten.message()},
         {"remedy", absl::StrCat("remove ", RecoveryDirectoryOf(PlacesOf(options_)),
                                 "/recovery-* before a job is to start anew there")}});
  }
  return SummaryToJson(summary);
}

// From here on: the service for operators and the membership watch, which run beside the training.

absl::StatusOr<CoordinatorDaemon::Operation> CoordinatorDaemon::Operate(
    ClusterCoordinator& coordinator) {
  WorkerChanges::Options options;
  if (local_ != nullptr) {
    options.start_local = [local = local_](const std::set<int>& taken) {
      return local->AddWorker(taken);
    };
    options.stop_local = [local = local_](TaskId task) { local->RemoveWorker(task); };
  }
  // If a local task ended by itself, the local cluster would restart it. So a local worker that is
  // removed is not told to end; LocalCluster::RemoveWorker() ends it.
  const bool keep = local_ != nullptr || options_.keep_tasks;
  options.farewell = keep ? Farewell::kKeep : Farewell::kShutDown;
  const auto changes =
      WorkerChanges::Create(world_, coordinator.parts().cluster, std::move(options));
  Operation operation;
  RETURN_IF_ERROR(ServeOperators(coordinator, changes, operation));
  if (!options_.membership.empty()) {
    operation.watch = MembershipWatch::Create(
        world_, MakeMembershipSource(options_.membership, world_.files, resolver_),
        coordinator.parts().cluster, changes);
    operation.watch->Start();
  }
  return operation;
}

absl::Status CoordinatorDaemon::ServeOperators(ClusterCoordinator& coordinator,
                                               std::shared_ptr<WorkerChanges> changes,
                                               Operation& operation) {
  if (options_.ctl_address.empty()) return absl::OkStatus();
  const CtlParts parts{options_.job.name, coordinator.parts().cluster,
                       coordinator.parts().scheduler, std::move(changes)};
  absl::StatusOr<std::unique_ptr<Server>> server =
      world_.transport.Listen(options_.ctl_address, {MakeCtlService(parts)});
  if (!server.ok()) {
    absl::Status error = Annotate(server.status(), "operators cannot be served");
    if (options_.ctl_required) return error;
    // The user did not ask for this address: it is the chief's address in TF_CONFIG, which often is
    // only a formality. So the job runs even if the address cannot be used.
    Log(LogLevel::kWarning, "ctl_unavailable", {{"cause", error.message()}});
    return absl::OkStatus();
  }
  Log(LogLevel::kInfo, "ctl_listening", {{"address", (*server)->address()}});
  operation.ctl = *std::move(server);
  if (options_.ctl_address_file.empty()) return absl::OkStatus();
  RemoveTemporaries(world_.files, options_.ctl_address_file);
  return WriteFileAtomically(world_.files, options_.ctl_address_file,
                             absl::StrCat(operation.ctl->address(), "\n"));
}

}  // namespace cohort
