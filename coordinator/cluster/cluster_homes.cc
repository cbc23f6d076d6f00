// Which homes have copies of mirrored variables.

#include "coordinator/cluster/cluster.h"

namespace cohort {

int Cluster::num_ps() const {
  MutexLock lock(mutex_);
  return options_.spec.NumTasks(options_.homes) - static_cast<int>(dropped_.size());
}

absl::StatusOr<std::vector<TaskLink>> Cluster::savers() const {
  absl::StatusOr<std::vector<TaskLink>> links = ps();
  if (links.ok() && options_.mirrored) links->resize(1);
  return links;
}

bool Cluster::DropHome(int index) {
  MutexLock lock(mutex_);
  dropped_.insert(index);
  return static_cast<int>(dropped_.size()) < options_.spec.NumTasks(options_.homes);
}

bool Cluster::TakeHome(int index, const proto::TaskRef& process, uint64_t changes) {
  MutexLock lock(mutex_);
  const auto link = links_.find(TaskId{options_.homes, index});
  if (changes != changes_ || open_changes_ > 0 || link == links_.end() ||
      link->second.task.incarnation() != process.incarnation()) {
    return false;
  }
  dropped_.erase(index);
  return true;
}

bool Cluster::IsReached(TaskId task) const {
  MutexLock lock(mutex_);
  const auto connection = connections_.find(task);
  return connection != connections_.end() && connection->second->IsServing();
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
