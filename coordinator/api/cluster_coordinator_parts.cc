// Creates and connects the coordinator's parts (scheduler, cluster, recovery, copies), and starts
// or resumes a job.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/leave_tasks.h"
#include "coordinator/homes/home_calls.h"

namespace cohort {

namespace {

// Sends a fence (an order to refuse late pushes) to every home of variables, under the present
// epoch. `done` gets the first error, or OK when all homes have confirmed.
void FenceAll(const Cluster& cluster, proto::FenceRequest fence, absl::Duration timeout,
              absl::AnyInvocable<void(absl::Status)> done) {
  const absl::StatusOr<std::vector<TaskLink>> links = cluster.ps();
  if (!links.ok()) return done(links.status());
  Envelope<proto::FenceRequest> request{std::move(fence), {}};
  request.header.set_epoch(cluster.epoch());
  std::vector<Envelope<proto::FenceRequest>> requests(links->size(), request);
  CallEach<proto::FenceResponse>(
      *links, "/cohort.proto.PsService/Fence", std::move(requests), timeout,
      [done = std::move(done)](auto answers) mutable { done(answers.status()); });
}

// Returns the identity that the coordinator shows to tasks. If the options give no incarnation, one
// is made from the clock. If the options give no settings (a fingerprint of the training), the
// incarnation takes their place, so that no other coordinator counts as the same job.
CoordinatorIdentity IdentityOf(const ClusterCoordinatorOptions& options, absl::Time now) {
  CoordinatorIdentity self;
  self.incarnation = options.incarnation != 0
                         ? options.incarnation
                         : Mix64(static_cast<uint64_t>(absl::ToUnixMicros(now)));
  self.job.set_name(options.job);
  self.job.set_settings(options.settings.value_or(self.incarnation));
  self.take_over = options.take_over;
  self.lease = options.lease;
  self.place = options.place;
  return self;
}

// Ends a job that has lost variables for good. Closures in flight could otherwise wait for the lost
// server longer than the job lives. So the remaining servers are first told to refuse all pushes of
// these closures.
void EndForLoss(const Cluster& cluster, std::shared_ptr<Scheduler> scheduler, absl::Duration lease,
                const absl::Status& error) {
  std::vector<TaskLink> left;
  for (const TaskLink& link : cluster.serving()) {
    if (link.task.role() == RoleName(cluster.homes())) left.push_back(link);
  }
  Envelope<proto::FenceRequest> request;
  request.header.set_epoch(cluster.epoch());
  request.header.set_watermark(scheduler->NextId().value);
  // When all remaining servers have answered, or after the time of a lease, the scheduler is
  // closed, which ends the job.
  std::vector<Envelope<proto::FenceRequest>> requests(left.size(), request);
  CallEach<proto::FenceResponse>(
      left, "/cohort.proto.PsService/Fence", std::move(requests), lease,
      [scheduler = std::move(scheduler), error](auto) mutable { scheduler->Close(error); });
}

std::set<int> IndicesOf(const std::set<TaskId>& tasks) {
  std::set<int> indices;
  for (const TaskId task : tasks) indices.insert(task.index);
  return indices;
}

}  // namespace

ClusterCoordinator::ClusterCoordinator(World world, Waiter& waiter, Options options)
    : world_(world),
      waiter_(waiter),
      options_(std::move(options)),
      memory_(std::make_shared<HomeMemory>(HomeMemory::Options{
          options_.homes, options_.cluster.Indices(options_.homes), options_.one_machine})),
      creator_(options_.cluster.Indices(options_.homes), options_.partitioner, options_.placement) {
  // The callbacks of the scheduler and the cluster refer to parts that do not exist yet. They find
  // them through `parts`, whose pointers are set as each part is made.
  auto parts = std::make_shared<Parts>();
  scheduler_ = Scheduler::Create(world_.clock, SchedulerOptionsFor(parts));
  cluster_ = Cluster::Create(world_, ClusterOptionsFor(parts));
  parts->cluster = cluster_;
  // User checkpoints and recovery checkpoints transfer the homes' shards through one shared object.
  ShardTransfer::Options transfer;
  transfer.mode = options_.checkpoint_mode;
  transfer.call_timeout = options_.call_timeout;
  transfer.chunk_bytes = options_.checkpoint_chunk_bytes;
  const auto shards = ShardTransfer::Create(world_, transfer, cluster_);
  PsControl::Options control;
  control.timeout = std::min(options_.call_timeout, options_.connect_timeout);
  control.unanswered_max = options_.connect_timeout;
  if (!options_.recovery_directory.empty()) {
    Recovery::Options recovery;
    recovery.job = options_.job;
    recovery.directory = options_.recovery_directory;
    recovery.interval = options_.recovery_interval;
    recovery.call_timeout = options_.call_timeout;
    recovery.has_application_state = options_.has_application_state;
    recovery.on_recovering = [parts] {
      if (const auto copies = parts->copies.lock()) copies->OnRecovery();
    };
    recovery.on_recovered = [parts] {
      if (const auto copies = parts->copies.lock()) copies->Restored();
    };
    recovery_ = Recovery::Create(world_, std::move(recovery), cluster_, scheduler_, shards);
    parts->recovery = recovery_;
  }
  if (recovery_ != nullptr || options_.mirrored) {
    control.when_stable = [scheduler = scheduler_](auto done) {
      scheduler->WhenStable(std::move(done));
    };
    // Without recovery, a call that lost a mirrored home is repeated at another home, which has a
    // copy of the variable, as soon as the loss is known. The loss is known after two leases at
    // most, so a call waits no longer.
    if (recovery_ == nullptr) control.recovery_timeout = 2 * options_.lease;
  }
  if (options_.mirrored) MakeCopies(parts);
  ps_ = std::make_unique<PsControl>(world_, cluster_, shards, waiter_, std::move(control));
}

void ClusterCoordinator::MakeCopies(const std::shared_ptr<Parts>& parts) {
  Copies::Options options;
  options.call_timeout = options_.call_timeout;
  options.chunk_bytes = options_.checkpoint_chunk_bytes;
  options.on_all_lost = [scheduler = scheduler_, parts](const absl::Status& error) {
    if (const auto recovery = parts->recovery.lock()) return recovery->OnPsLost(error);
    scheduler->RecordError(error);
  };
  copies_ = Copies::Create(world_, std::move(options), cluster_, scheduler_);
  parts->copies = copies_;
}

Scheduler::Options ClusterCoordinator::SchedulerOptionsFor(
    const std::shared_ptr<const Parts>& parts) const {
  Scheduler::Options options;
  static_cast<ScheduleLimits&>(options) = options_;
  if (options_.mirrored) {
    options.gang_size = options_.cluster.NumTasks(Role::kWorker);
    const std::vector<int> workers = options_.cluster.Indices(Role::kWorker);
    options.gang_workers = {workers.begin(), workers.end()};
    options.gang_min = options_.workers.min;
    options.on_out_of_step = [parts](const std::map<int, uint64_t>& workers,
                                     const absl::Status& cause) {
      if (const auto copies = parts->copies.lock()) copies->OnOutOfStep(workers, cause);
      const auto recovery = parts->recovery.lock();
      if (recovery == nullptr) return;
      std::set<int> away;
      for (const auto& [worker, session] : workers) away.insert(worker);
      recovery->OnHomesAway(away, cause);
    };
  }
  if (options_.steps_ahead_max) options.steps_ahead_max = *options_.steps_ahead_max;
  options.setup_timeout = options_.connect_timeout;
  options.redo_max = options_.recovery_directory.empty() ? 0 : options_.redo_max;
  options.checkpoint_every = options_.recovery_interval_closures;
  options.on_checkpoint_due = [parts] {
    const auto recovery = parts->recovery.lock();
    if (recovery != nullptr) recovery->Checkpoint([](const absl::Status&) {});
  };
  options.on_ps_suspect = [parts](int ps) {
    if (const auto cluster = parts->cluster.lock()) cluster->DoubtPs(ps);
  };
  options.on_suspect = [parts](int worker, uint64_t incarnation) {
    if (const auto cluster = parts->cluster.lock()) cluster->SuspectWorker(worker, incarnation);
  };
  options.fence = [parts, timeout = options_.call_timeout](uint64_t watermark, auto done) {
    const auto cluster = parts->cluster.lock();
    if (cluster == nullptr) return done(absl::OkStatus());
    proto::FenceRequest request;
    request.set_watermark(watermark);
    FenceAll(*cluster, std::move(request), timeout, std::move(done));
  };
  options.fence_worker = [parts, homes = options_.homes, timeout = options_.call_timeout](
                             const std::set<uint64_t>& sessions, auto done) {
    const auto cluster = parts->cluster.lock();
    if (cluster == nullptr) return done(absl::OkStatus());
    // If the lost worker is itself the only home of variables, its late pushes can only reach its
    // own variables, which are lost with the worker. So there is nothing to fence.
    if (homes == Role::kWorker && !cluster->ps().ok()) return done(absl::OkStatus());
    proto::FenceRequest request;
    for (const uint64_t session : sessions) request.add_worker_incarnations(session);
    FenceAll(*cluster, std::move(request), timeout, std::move(done));
  };
  return options;
}

Cluster::Options ClusterCoordinator::ClusterOptionsFor(
    const std::shared_ptr<const Parts>& parts) const {
  Cluster::Options options;
  options.spec = options_.cluster;
  options.seed = options_.seed;
  options.self = IdentityOf(options_, world_.clock.Now());
  options.homes = options_.homes;
  options.worker_threads = options_.worker_threads;
  options.limits = options_.workers;
  options.address = options_.address;
  options.mirrored = options_.mirrored;
  ListenToTasks(parts, options);
  // The text says what the job has lost without recovery: its variables, or a member of its
  // synchronous group.
  if (options_.recovery_directory.empty()) {
    options.ps_lost_remedy =
        absl::StrCat(options_.mirrored ? "; synchronous training needs all of its workers"
                                       : "; its variables are gone",
                     ": ", options_.loss_remedy);
  }
  return options;
}

void ClusterCoordinator::ListenToTasks(const std::shared_ptr<const Parts>& parts,
                                       Cluster::Options& options) const {
  // Replayed closures count as done here, because they show that the job makes progress.
  const auto done = [scheduler = scheduler_] {
    const Scheduler::Stats stats = scheduler->stats();
    return stats.done + stats.replayed;
  };
  // With recovery, the job is ended through Recovery::EndJob, which closes the scheduler and also
  // ends waits for checkpoints.
  const auto end_job = [scheduler = scheduler_, parts](const absl::Status& error) {
    if (const auto recovery = parts->recovery.lock()) return recovery->EndJob(error);
    scheduler->Close(error);
  };
  options.on_home_serving = [memory = memory_, done, end_job](const TaskLink& link) {
    const absl::Status hopeless = memory->OnServing(link, done());
    if (!hopeless.ok()) end_job(hopeless);
  };
  options.on_worker_ready = [scheduler = scheduler_, parts](int worker, const TaskLink& link) {
    scheduler->WorkerReady(worker, link.task, link.address, link.data);
    if (const auto copies = parts->copies.lock()) copies->OnServing(worker);
  };
  options.on_worker_lost = [scheduler = scheduler_](int worker, const absl::Status& cause) {
    scheduler->WorkerLost(worker, cause);
  };
  options.on_worker_removed = [scheduler = scheduler_, parts](int worker, auto drained) {
    scheduler->RemoveWorker(worker, std::move(drained));
    if (const auto copies = parts->copies.lock()) copies->OnRemoved(worker);
  };
  options.on_home_added = [scheduler = scheduler_, parts](int worker) {
    scheduler->JoinGangs(worker);
    if (const auto copies = parts->copies.lock()) copies->OnAdded(worker);
  };
  options.on_apart = [scheduler = scheduler_, parts](const Apart& apart) {
    scheduler->SetApart({IndicesOf(apart.idle), IndicesOf(apart.left_out)});
    if (const auto copies = parts->copies.lock()) copies->OnReach();
  };
  options.on_ps_lost = [scheduler = scheduler_, memory = memory_, parts, done, end_job,
                        lease = options_.lease](const absl::Status& error) {
    const absl::Status hopeless = memory->OnLost(DetailOf(error).origin().index(), done());
    // A home that needs more memory than it has would be lost again after every recovery.
    if (!hopeless.ok()) return end_job(hopeless);
    if (const auto copies = parts->copies.lock()) {
      // The scheduler may not have noticed the loss of a home that was restarted at once.
      scheduler->OutOfStep({DetailOf(error).origin().index()}, error);
      return copies->OnLost(error);
    }
    if (const auto recovery = parts->recovery.lock()) return recovery->OnPsLost(error);
    const auto cluster = parts->cluster.lock();
    if (cluster != nullptr) EndForLoss(*cluster, scheduler, lease, error);
  };
  options.on_superseded = end_job;
  options.on_leaving = [scheduler = scheduler_, parts, homes = options.homes](
                           TaskId task, absl::Duration patience, auto let_go) {
    // A worker without variables leaves as soon as its closures in flight have ended.
    if (task.role != homes) return scheduler->RemoveWorker(task.index, std::move(let_go));
    const auto recovery = parts->recovery.lock();
    if (recovery == nullptr) return let_go();
    recovery->SaveBeforeLeave(task.ToString(), patience, std::move(let_go));
  };
}

// Tells each part to stop. Calls in flight also own the parts, so the parts may outlive this
// object.
ClusterCoordinator::~ClusterCoordinator() {
  if (recovery_ != nullptr) recovery_->Stop();
  if (copies_ != nullptr) copies_->Stop();
  cluster_->Stop();
}

absl::Status ClusterCoordinator::WaitForCluster() {
  uint64_t floor = 0;
  if (recovery_ != nullptr) {
    ASSIGN_OR_RETURN(const RecoveryStore::Left left, ReadLeft());
    // The names of checkpoint files contain the epoch and must sort in the order in which the files
    // were written. So the new epoch must be higher than the epoch of every checkpoint that exists.
    floor = left.epoch;
  }
  const absl::Time deadline = world_.clock.Now() + options_.connect_timeout;
  const auto not_ready = [&](const absl::Status& status) {
    if (!absl::IsDeadlineExceeded(status)) return status;
    return absl::DeadlineExceededError(absl::StrCat(
        "the cluster was not ready after ", absl::FormatDuration(options_.connect_timeout),
        options_.homes == Role::kPs ? " (wanted every ps and " : " (wanted ", options_.workers.min,
        " worker(s)): ", cluster_->ReportMissing()));
  };
  const absl::StatusOr<uint64_t> epoch =
      Await<uint64_t>(waiter_, options_.connect_timeout, "every ps",
                      [&](auto done) { cluster_->Claim(floor, std::move(done)); });
  if (!epoch.ok()) return not_ready(epoch.status());
  scheduler_->SetEpoch(*epoch);
  // The connect timeout covers both waits: workers are awaited for the time that the wait for
  // parameter servers has left.
  const absl::Status ready =
      Await<bool>(waiter_, deadline - world_.clock.Now(), "the tasks", [&](auto done) {
        cluster_->WhenReady(options_.workers.min,
                            [done = std::move(done)](absl::Status status) mutable {
                              if (!status.ok()) return done(status);
                              done(true);
                            });
      }).status();
  if (!ready.ok()) return not_ready(ready);
  if (recovery_ != nullptr) recovery_->Start();
  return absl::OkStatus();
}

absl::Status ClusterCoordinator::WaitFor(absl::string_view what,
                                         absl::FunctionRef<void(Recovery::Done)> start) {
  return Await<bool>(waiter_, absl::InfiniteDuration(), what,
                     [&](auto done) { start(StatusTo(std::move(done))); })
      .status();
}

absl::StatusOr<RecoveryStore::Left> ClusterCoordinator::ReadLeft() const {
  const RecoveryStore store(world_.files, options_.recovery_directory);
  absl::StatusOr<RecoveryStore::Left> left = store.ReadLeft();
  if (left.ok()) {
    RETURN_IF_ERROR(store.CheckJob(*left, options_.job));
    return left;
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  return WithDetail(Annotate(left.status(), absl::StrCat("the state of an earlier coordinator in ",
                                                         options_.recovery_directory)),
                    detail);
}

absl::StatusOr<std::optional<proto::CoordinatorState>> ClusterCoordinator::LeftState() const {
  if (recovery_ == nullptr) return std::optional<proto::CoordinatorState>();
  ASSIGN_OR_RETURN(const RecoveryStore::Left left, ReadLeft());
  if (left.checkpoints.empty()) return std::optional<proto::CoordinatorState>();
  return std::optional<proto::CoordinatorState>(left.checkpoints.front().state);
}

absl::StatusOr<SliceStarts> ClusterCoordinator::LeftSlices() const {
  if (recovery_ == nullptr) return SliceStarts();
  ASSIGN_OR_RETURN(const RecoveryStore::Left left, ReadLeft());
  return RecoveryStore(world_.files, options_.recovery_directory).ReadSlices(left);
}

absl::StatusOr<std::optional<proto::CoordinatorState>> ClusterCoordinator::ResumeState() {
  if (recovery_ == nullptr) return std::optional<proto::CoordinatorState>();
  ASSIGN_OR_RETURN(RecoveryStore::Left left, ReadLeft());
  // Parameter servers that an earlier coordinator used may hold values of unknown origin. So even
  // if there is no checkpoint, the job restores the servers: to the initial values.
  const bool starts_anew = left.checkpoints.empty();
  if (!left.damage.ok()) {
    // The newest checkpoint is damaged, so the job resumes from the newest one that is whole.
    Log(LogLevel::kWarning, "recovery_checkpoint_damaged",
        {{"cause", left.damage.message()}, {"taken", left.checkpoints.front().prefix}});
  }
  ASSIGN_OR_RETURN(
      const proto::CoordinatorState state,
      (Await<proto::CoordinatorState>(
          waiter_, absl::InfiniteDuration(), "the last checkpoint to be restored",
          [&](auto done) { recovery_->Adopt(std::move(left.checkpoints), std::move(done)); })));
  if (!starts_anew || !options_.has_application_state) has_state_ = true;
  resumed_ = true;
  if (starts_anew) return std::optional<proto::CoordinatorState>();
  if (state.watermark() > 1) scheduler_->SkipTo(ClosureId{state.watermark()});
  return std::optional<proto::CoordinatorState>(state);
}

void ClusterCoordinator::SetApplicationState(Recovery::ApplicationState state) {
  if (recovery_ == nullptr) return;
  recovery_->SetApplicationState(std::move(state));
  has_state_ = true;
}

absl::Status ClusterCoordinator::MakeDurable() {
  if (recovery_ == nullptr) return absl::OkStatus();
  return WaitFor("a recovery checkpoint",
                 [&](Recovery::Done done) { recovery_->Checkpoint(std::move(done)); });
}

void ClusterCoordinator::MakeDurableSoon() {
  if (recovery_ != nullptr) recovery_->Checkpoint([](const absl::Status&) {});
}

bool ClusterCoordinator::CheckpointAndHold(absl::Duration patience, Recovery::Done done) {
  if (recovery_ == nullptr || !resumed_ || !has_state_) return false;
  recovery_->CheckpointAndHold(patience, std::move(done));
  return true;
}

absl::Status ClusterCoordinator::CheckHeld() { return cohort::CheckHeld(waiter_, *cluster_); }

absl::Status ClusterCoordinator::ConfirmHeld() { return cohort::ConfirmHeld(waiter_, *cluster_); }

absl::Status ClusterCoordinator::ForgetState() {
  if (recovery_ == nullptr) return absl::OkStatus();
  // If another coordinator has taken over the job, it needs the checkpoints. So checkpoints are
  // removed only after a check that the tasks are still held by this coordinator.
  RETURN_IF_ERROR(CheckHeld());
  return WaitFor("the recovery checkpoints to be removed",
                 [&](Recovery::Done done) { recovery_->Forget(std::move(done)); });
}

}  // namespace cohort
