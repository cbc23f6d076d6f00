// The set of homes that have valid copies of mirrored variables, and the news of a home's loss.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/cluster.h"

namespace cohort {

namespace {

// Makes the error of a lost task, of class WORKER_LOST, with the task as origin.
absl::Status WorkerLost(TaskId task, absl::string_view cause) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  detail.mutable_origin()->set_role(RoleName(task.role));
  detail.mutable_origin()->set_index(task.index);
  return WithDetail(absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", cause)),
                    detail);
}

}  // namespace

std::vector<int> Cluster::HomesLocked() const {
  std::vector<int> homes;
  for (const TaskId task : roster_.Tasks(options_.homes)) {
    if (joining_.count(task.index) == 0) homes.push_back(task.index);
  }
  return homes;
}

std::vector<int> Cluster::HomesInStepLocked() const {
  std::vector<int> homes;
  for (const int home : HomesLocked()) {
    if (dropped_.count(home) == 0) homes.push_back(home);
  }
  return homes;
}

int Cluster::num_ps() const {
  MutexLock lock(mutex_);
  return static_cast<int>(HomesInStepLocked().size());
}

absl::StatusOr<std::vector<TaskLink>> Cluster::savers() const {
  absl::StatusOr<std::vector<TaskLink>> links = ps();
  // All copies are equal, so one of them makes the whole checkpoint.
  if (links.ok() && options_.mirrored) links->resize(1);
  return links;
}

bool Cluster::DropHome(int index) {
  MutexLock lock(mutex_);
  const bool is_home = roster_.Find({options_.homes, index}) != nullptr;
  if (is_home && !claiming_) dropped_.insert(index);
  return !HomesInStepLocked().empty();
}

bool Cluster::TakeHome(int index, const proto::TaskRef& process, uint64_t changes) {
  MutexLock lock(mutex_);
  const auto link = links_.find(TaskId{options_.homes, index});
  // A change that the copy does not contain, or a restart of the process, makes the copy worthless.
  if (changes != changes_ || open_changes_ > 0 || link == links_.end() ||
      link->second.task.incarnation() != process.incarnation()) {
    return false;
  }
  dropped_.erase(index);
  // The home is now the youngest member of its group (edges.h).
  joined_[index] = ++last_joined_;
  joining_.erase(index);
  return true;
}

bool Cluster::IsHeard(TaskId task) const {
  std::shared_ptr<TaskConnection> connection;
  {
    MutexLock lock(mutex_);
    const auto found = connections_.find(task);
    if (found == connections_.end()) return false;
    connection = found->second;
  }
  // Outside the lock: the connection has a lock of its own.
  return connection->IsServing() && connection->silence() == absl::ZeroDuration();
}

void Cluster::DoubtPs(int ps) {
  if (!IsHeard(TaskId{options_.homes, ps})) SuspectPs(ps);
}

Apart Cluster::FindApart() const {
  const std::set<TaskPair> broken = reach_->broken();
  MutexLock lock(mutex_);
  const std::vector<TaskId> workers = roster_.Tasks(Role::kWorker);
  // Without copies, a worker that does not reach all servers waits; a worker with the variables in
  // itself needs no server.
  if (!options_.mirrored) {
    if (options_.homes != Role::kPs) return {};
    return PartFromServers(workers, roster_.Tasks(Role::kPs), broken);
  }
  std::vector<TaskId> in_step;
  std::vector<TaskId> others;
  for (const TaskId worker : workers) {
    const bool has_copy = dropped_.count(worker.index) + joining_.count(worker.index) == 0;
    (has_copy ? in_step : others).push_back(worker);
  }
  // Sorted by age: homes that have had a copy from the beginning come first, by index.
  const auto joined = [&](TaskId task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = joined_.find(task.index);
    return found == joined_.end() ? 0 : found->second;
  };
  std::stable_sort(in_step.begin(), in_step.end(),
                   [&](TaskId one, TaskId other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                     return joined(one) < joined(other);
                   });
  return PartGroup(in_step, others, static_cast<size_t>(options_.limits.min), broken);
}

bool Cluster::MayJoin(int index) const {
  return FindApart().left_out.count(TaskId{options_.homes, index}) == 0;
}

bool Cluster::IsReached(TaskId task) const {
  MutexLock lock(mutex_);
  const auto connection = connections_.find(task);
  return connection != connections_.end() && connection->second->IsServing();
}

uint64_t Cluster::WatchLoss(std::optional<TaskId> task, LossWatches::Lost lost) {
  const uint64_t watch = loss_watches_.Add(task, std::move(lost));
  // A loss that happened before the watch was set would not be told again, so it is told here.
  absl::Status cause = ps().status();
  if (task.has_value()) {
    MutexLock lock(mutex_);
    cause = links_.count(*task) > 0 ? absl::OkStatus() : WorkerLost(*task, DescribeLocked(*task));
  }
  if (!cause.ok()) loss_watches_.Tell(task, cause);
  return watch;
}

void Cluster::TellOfLoss(TaskId task, const absl::Status& of_home) {
  // A watch of the task itself gets its loss as a worker; watches of homes get the loss of a home.
  loss_watches_.Tell(task, WorkerLost(task, of_home.message()));
  if (task.role == options_.homes) loss_watches_.Tell(std::nullopt, of_home);
}

void Cluster::BeginChange() {
  MutexLock lock(mutex_);
  ++changes_;
  ++open_changes_;
}

void Cluster::EndChange() {
  MutexLock lock(mutex_);
  --open_changes_;
}

uint64_t Cluster::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

}  // namespace cohort
