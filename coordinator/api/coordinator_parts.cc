#include "coordinator/api/coordinator_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/homes/shard_transfer.h"

namespace cohort {

namespace {

// Pointers to the cluster, the recovery and the copies, for callbacks that the scheduler and the
// cluster are given before these parts exist. The pointers are set once the parts exist. They are
// weak, so that no part keeps another one alive.
struct LaterParts {
  std::weak_ptr<Cluster> cluster;
  std::weak_ptr<Recovery> recovery;
  std::weak_ptr<Copies> copies;
};

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

// Returns the options of the scheduler. Its callbacks reach the other parts through `parts`.
Scheduler::Options SchedulerOptionsFor(const ClusterCoordinatorOptions& job,
                                       const std::shared_ptr<const LaterParts>& parts) {
  Scheduler::Options options;
  static_cast<ScheduleLimits&>(options) = job;
  if (job.mirrored) {
    options.gang_size = job.cluster.NumTasks(Role::kWorker);
    const std::vector<int> workers = job.cluster.Indices(Role::kWorker);
    options.gang_workers = {workers.begin(), workers.end()};
    options.gang_min = job.workers.min;
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
  if (job.steps_ahead_max) options.steps_ahead_max = *job.steps_ahead_max;
  options.setup_timeout = job.connect_timeout;
  options.redo_max = job.recovery_directory.empty() ? 0 : job.redo_max;
  options.checkpoint_every = job.recovery_interval_closures;
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
  options.fence = [parts, timeout = job.call_timeout](uint64_t watermark, auto done) {
    const auto cluster = parts->cluster.lock();
    if (cluster == nullptr) return done(absl::OkStatus());
    proto::FenceRequest request;
    request.set_watermark(watermark);
    FenceAll(*cluster, std::move(request), timeout, std::move(done));
  };
  options.fence_worker = [parts, homes = job.homes, timeout = job.call_timeout](
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

// Sets the callbacks by which the cluster tells the other parts what happens to tasks. `made` has
// the parts that exist already.
void ListenToTasks(const CoordinatorParts& made, const std::shared_ptr<const LaterParts>& parts,
                   Cluster::Options& options) {
  // Replayed closures count as done here, because they show that the job makes progress.
  const auto done = [scheduler = made.scheduler] {
    const Scheduler::Stats stats = scheduler->stats();
    return stats.done + stats.replayed;
  };
  // With recovery, the job is ended through Recovery::EndJob, which closes the scheduler and also
  // ends waits for checkpoints.
  const auto end_job = [scheduler = made.scheduler, parts](const absl::Status& error) {
    if (const auto recovery = parts->recovery.lock()) return recovery->EndJob(error);
    scheduler->Close(error);
  };
  options.on_home_serving = [memory = made.memory, done, end_job](const TaskLink& link) {
    const absl::Status hopeless = memory->OnServing(link, done());
    if (!hopeless.ok()) end_job(hopeless);
  };
  options.on_worker_ready = [scheduler = made.scheduler, parts](int worker, const TaskLink& link) {
    scheduler->WorkerReady(worker, link.task, link.address, link.data);
    if (const auto copies = parts->copies.lock()) copies->OnServing(worker);
  };
  options.on_worker_lost = [scheduler = made.scheduler](int worker, const absl::Status& cause) {
    scheduler->WorkerLost(worker, cause);
  };
  options.on_worker_removed = [scheduler = made.scheduler, parts](int worker, auto drained) {
    scheduler->RemoveWorker(worker, std::move(drained));
    if (const auto copies = parts->copies.lock()) copies->OnRemoved(worker);
  };
  options.on_home_added = [scheduler = made.scheduler, parts](int worker) {
    scheduler->JoinGangs(worker);
    if (const auto copies = parts->copies.lock()) copies->OnAdded(worker);
  };
  options.on_apart = [scheduler = made.scheduler, parts](const Apart& apart) {
    scheduler->SetApart({IndicesOf(apart.idle), IndicesOf(apart.left_out)});
    if (const auto copies = parts->copies.lock()) copies->OnReach();
  };
  options.on_ps_lost = [scheduler = made.scheduler, memory = made.memory, parts, done, end_job,
                        lease = options.self.lease](const absl::Status& error) {
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
  options.on_leaving = [scheduler = made.scheduler, parts, homes = options.homes](
                           TaskId task, absl::Duration patience, auto let_go) {
    // A worker without variables leaves as soon as its closures in flight have ended.
    if (task.role != homes) return scheduler->RemoveWorker(task.index, std::move(let_go));
    const auto recovery = parts->recovery.lock();
    if (recovery == nullptr) return let_go();
    recovery->SaveBeforeLeave(task.ToString(), patience, std::move(let_go));
  };
}

// Returns the options of the cluster. `made` has the parts that exist already, and the cluster's
// callbacks reach the others through `parts`.
Cluster::Options ClusterOptionsFor(World world, const ClusterCoordinatorOptions& job,
                                   const CoordinatorParts& made,
                                   const std::shared_ptr<const LaterParts>& parts) {
  Cluster::Options options;
  options.spec = job.cluster;
  options.seed = job.seed;
  options.self = IdentityOf(job, world.clock.Now());
  options.homes = job.homes;
  options.worker_threads = job.worker_threads;
  options.limits = job.workers;
  options.address = job.address;
  options.mirrored = job.mirrored;
  ListenToTasks(made, parts, options);
  // The text says what the job has lost without recovery: its variables, or a member of its
  // synchronous group.
  if (job.recovery_directory.empty()) {
    options.ps_lost_remedy =
        absl::StrCat(job.mirrored ? "; synchronous training needs all of its workers"
                                  : "; its variables are gone",
                     ": ", job.loss_remedy);
  }
  return options;
}

// Returns the options of the recovery, whose callbacks reach the copies through `parts`.
Recovery::Options RecoveryOptionsFor(const ClusterCoordinatorOptions& job,
                                     const std::shared_ptr<const LaterParts>& parts) {
  Recovery::Options options;
  options.job = job.job;
  options.directory = job.recovery_directory;
  options.interval = job.recovery_interval;
  options.call_timeout = job.call_timeout;
  options.has_application_state = job.has_application_state;
  options.on_recovering = [parts] {
    if (const auto copies = parts->copies.lock()) copies->OnRecovery();
  };
  options.on_recovered = [parts] {
    if (const auto copies = parts->copies.lock()) copies->Restored();
  };
  return options;
}

// Returns the options of the copies. If no home has a valid copy any more, the recovery takes over
// or, without a recovery, the job fails.
Copies::Options CopiesOptionsFor(const ClusterCoordinatorOptions& job, const CoordinatorParts& made,
                                 const std::shared_ptr<const LaterParts>& parts) {
  Copies::Options options;
  options.call_timeout = job.call_timeout;
  options.chunk_bytes = job.checkpoint_chunk_bytes;
  options.on_all_lost = [scheduler = made.scheduler, parts](const absl::Status& error) {
    if (const auto recovery = parts->recovery.lock()) return recovery->OnPsLost(error);
    scheduler->RecordError(error);
  };
  return options;
}

// Returns the options of the coordinator's own calls to homes.
PsControl::Options ControlOptionsFor(const ClusterCoordinatorOptions& job,
                                     const CoordinatorParts& made) {
  PsControl::Options options;
  options.timeout = std::min(job.call_timeout, job.connect_timeout);
  options.unanswered_max = job.connect_timeout;
  if (made.recovery == nullptr && !job.mirrored) return options;
  options.when_stable = [scheduler = made.scheduler](auto done) {
    scheduler->WhenStable(std::move(done));
  };
  // Without recovery, a call that lost a mirrored home is repeated at another home, which has a
  // copy of the variable, as soon as the loss is known. The loss is known after two leases at most,
  // so a call waits no longer.
  if (made.recovery == nullptr) options.recovery_timeout = 2 * job.lease;
  return options;
}

}  // namespace

void CoordinatorParts::Stop() const {
  if (recovery != nullptr) recovery->Stop();
  if (copies != nullptr) copies->Stop();
  cluster->Stop();
}

CoordinatorParts MakeCoordinatorParts(World world, Waiter& waiter,
                                      const ClusterCoordinatorOptions& options) {
  CoordinatorParts made;
  made.memory = std::make_shared<HomeMemory>(HomeMemory::Options{
      options.homes, options.cluster.Indices(options.homes), options.one_machine});
  // The callbacks of the scheduler and the cluster refer to parts that do not exist yet. They find
  // them through `parts`, whose pointers are set as each part is made.
  const auto parts = std::make_shared<LaterParts>();
  made.scheduler = Scheduler::Create(world.clock, SchedulerOptionsFor(options, parts));
  made.cluster = Cluster::Create(world, ClusterOptionsFor(world, options, made, parts));
  parts->cluster = made.cluster;
  // User checkpoints and recovery checkpoints transfer the homes' shards through one shared object.
  const ShardTransfer::Options transfer{options.checkpoint_mode, options.call_timeout,
                                        options.checkpoint_chunk_bytes};
  const auto shards = ShardTransfer::Create(world, transfer, made.cluster);
  if (!options.recovery_directory.empty()) {
    made.recovery = Recovery::Create(world, RecoveryOptionsFor(options, parts), made.cluster,
                                     made.scheduler, shards);
    parts->recovery = made.recovery;
  }
  if (options.mirrored) {
    made.copies =
        Copies::Create(world, CopiesOptionsFor(options, made, parts), made.cluster, made.scheduler);
    parts->copies = made.copies;
  }
  made.ps = std::make_unique<PsControl>(world, made.cluster, shards, waiter,
                                        ControlOptionsFor(options, made));
  return made;
}

}  // namespace cohort
