#include "coordinator/cluster/loss_watches.h"

#include <utility>
#include <vector>

namespace cohort {

uint64_t LossWatches::Add(std::optional<TaskId> task, Lost lost) {
  MutexLock lock(mutex_);
  watches_[++last_] = {task, std::move(lost)};
  return last_;
}

void LossWatches::Forget(uint64_t watch) {
  Watch forgotten;  // destroyed after the lock
  MutexLock lock(mutex_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  forgotten = std::move(found->second);
  watches_.erase(found);
}

void LossWatches::Tell(std::optional<TaskId> task, const absl::Status& cause) {
  std::vector<Lost> told;
  {
    MutexLock lock(mutex_);
    for (auto watch = watches_.begin(); watch != watches_.end();) {
      if (watch->second.task != task) {
        ++watch;
        continue;
      }
      told.push_back(std::move(watch->second.lost));
      watch = watches_.erase(watch);
    }
  }
  for (Lost& lost : told) lost(cause);
}

}  // namespace cohort
