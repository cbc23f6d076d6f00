#include "coordinator/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status PsLost(TaskId task, uint64_t incarnation, absl::string_view cause) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role(RoleName(task.role));
  detail.mutable_origin()->set_index(task.index);
  detail.mutable_origin()->set_incarnation(incarnation);
  return WithDetail(
      absl::UnavailableError(absl::StrCat(
          "parameter server ", task.ToString(), " was lost: ", cause,
          "; its variables are gone: start the job again with checkpoint.restore=true")),
      detail);
}

}  // namespace

std::shared_ptr<Cluster> Cluster::Create(World world, Options options) {
  return std::shared_ptr<Cluster>(new Cluster(world, std::move(options)));
}

Cluster::Cluster(World world, Options options) : world_(world), options_(std::move(options)) {}

Cluster::~Cluster() { Stop(); }

void Cluster::Start() {
  proto::AttachRequest attach;
  attach.set_epoch(options_.epoch);
  attach.set_coordinator_incarnation(options_.coordinator_incarnation);
  attach.set_job(options_.job);
  attach.set_seed(options_.seed);
  attach.set_compute_threads(options_.worker_threads);
  attach.set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
  // By value: a connection's timer may ask after the cluster is gone.
  const auto address_of = [address = options_.address, spec = options_.spec](TaskId task) {
    return address ? address(task) : *spec.Address(task);
  };
  for (const auto& [task, address] : options_.spec.tasks()) {
    if (task.role != Role::kPs) continue;
    proto::Peer* const peer = attach.add_ps();
    peer->mutable_task()->set_role(RoleName(task.role));
    peer->mutable_task()->set_index(task.index);
    peer->set_address(address_of(task));
  }
  std::vector<std::shared_ptr<TaskConnection>> started;
  {
    MutexLock lock(mutex_);
    int workers = 0;  // tasks come in index order
    for (const auto& [task, address] : options_.spec.tasks()) {
      if (task.role != Role::kPs && task.role != Role::kWorker) continue;
      TaskConnection::Options options;
      options.task = task;
      options.attach = attach;
      if (task.role == Role::kWorker) options.attach.set_worker_position(workers++);
      options.lease = options_.lease;
      // Weak: the connection must not keep the cluster that owns it.
      const std::weak_ptr<Cluster> weak = weak_from_this();
      options.address = [address_of, task = task] { return address_of(task); };
      options.on_ready = [weak, task = task](const TaskLink& link) {
        if (const auto self = weak.lock()) self->OnReady(task, link);
      };
      options.on_lost = [weak, task = task](const absl::Status& cause) {
        if (const auto self = weak.lock()) self->OnLost(task, cause);
      };
      connections_[task] = TaskConnection::Create(world_, std::move(options));
      started.push_back(connections_[task]);
    }
  }
  for (const auto& connection : started) connection->Start();
}

void Cluster::Stop() {
  MutexLock lock(mutex_);
  for (const auto& [task, connection] : connections_) connection->Stop();
}

void Cluster::WhenReady(int min_workers, absl::AnyInvocable<void()> done) {
  {
    MutexLock lock(mutex_);
    if (!IsReadyLocked(min_workers)) {
      ready_waits_.push_back({min_workers, std::move(done)});
      return;
    }
  }
  done();
}

bool Cluster::IsReadyLocked(int min_workers) const {
  int workers = 0;
  int ps = 0;
  for (const auto& [task, link] : links_) {
    workers += task.role == Role::kWorker ? 1 : 0;
    ps += task.role == Role::kPs ? 1 : 0;
  }
  return workers >= min_workers && ps == num_ps();
}

void Cluster::SuspectWorker(int worker, uint64_t incarnation) {
  std::shared_ptr<TaskConnection> connection;
  {
    MutexLock lock(mutex_);
    const auto found = connections_.find(TaskId{Role::kWorker, worker});
    if (found == connections_.end()) return;
    connection = found->second;
  }
  connection->Suspect(incarnation, absl::UnavailableError("a call to it failed"));
}

void Cluster::OnReady(TaskId task, const TaskLink& link) {
  std::vector<absl::AnyInvocable<void()>> ready;
  bool ps_restarted = false;
  {
    MutexLock lock(mutex_);
    links_[task] = link;
    const uint64_t incarnation = link.task.incarnation();
    ps_restarted = task.role == Role::kPs &&
                   first_incarnation_.emplace(task, incarnation).first->second != incarnation;
    for (auto wait = ready_waits_.begin(); wait != ready_waits_.end();) {
      if (!IsReadyLocked(wait->min_workers)) {
        ++wait;
        continue;
      }
      ready.push_back(std::move(wait->done));
      wait = ready_waits_.erase(wait);
    }
  }
  if (ps_restarted) {
    options_.on_ps_lost(PsLost(task, link.task.incarnation(), "the process was restarted"));
  }
  if (task.role == Role::kWorker) options_.on_worker_ready(task.index, link);
  for (auto& done : ready) done();
}

void Cluster::OnLost(TaskId task, const absl::Status& cause) {
  uint64_t incarnation = 0;
  {
    MutexLock lock(mutex_);
    const auto found = links_.find(task);
    if (found == links_.end()) return;
    incarnation = found->second.task.incarnation();
    links_.erase(found);
  }
  if (task.role == Role::kWorker) return options_.on_worker_lost(task.index);
  options_.on_ps_lost(PsLost(task, incarnation, cause.message()));
}

absl::StatusOr<std::vector<TaskLink>> Cluster::ps() const {
  MutexLock lock(mutex_);
  std::vector<TaskLink> links;
  for (const int index : options_.spec.Indices(Role::kPs)) {
    const TaskId task{Role::kPs, index};
    const auto found = links_.find(task);
    if (found == links_.end()) {
      return PsLost(task, 0, connections_.at(task)->Describe());
    }
    links.push_back(found->second);
  }
  return links;
}

absl::StatusOr<size_t> Cluster::PositionOfPs(uint32_t index) const {
  const std::vector<int> indices = options_.spec.Indices(Role::kPs);
  const auto found = std::find(indices.begin(), indices.end(), static_cast<int>(index));
  if (found != indices.end()) return static_cast<size_t>(found - indices.begin());
  return absl::InvalidArgumentError(absl::StrCat("the cluster has no ps:", index,
                                                 "; its parameter servers have the indices ",
                                                 absl::StrJoin(indices, ", ")));
}

std::vector<TaskLink> Cluster::serving() const {
  MutexLock lock(mutex_);
  std::vector<TaskLink> links;
  for (const auto& [task, link] : links_) links.push_back(link);
  return links;
}

std::string Cluster::Report() const {
  MutexLock lock(mutex_);
  std::string report;
  for (const auto& [task, connection] : connections_) {
    absl::StrAppend(&report, report.empty() ? "" : "; ", connection->Describe());
  }
  return report;
}

}  // namespace cohort
