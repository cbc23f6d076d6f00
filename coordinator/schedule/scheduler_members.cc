// The removal of a worker from the scheduler.

#include <utility>

#include "coordinator/schedule/scheduler.h"

namespace cohort {

void Scheduler::RemoveWorker(int worker, absl::AnyInvocable<void()> drained) {
  Change change(*this);
  WorkerSlots& lane = lanes_[worker];
  lane.ready = false;
  // The lane stays until its closures have ended; RetireLanesLocked then removes it.
  lane.on_drained.push_back(std::move(drained));
  gangs_.Leave(worker);
}

void Scheduler::RetireLanesLocked(Effects& effects) {
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (it->second.on_drained.empty() || it->second.in_flight > 0) {
      ++it;
      continue;
    }
    // A lane without closures in flight is not used any more.
    for (auto& drained : it->second.on_drained) effects.push_back(std::move(drained));
    done_on_.erase(it->first);
    it = lanes_.erase(it);
  }
}

std::map<int, WorkerStats> Scheduler::workers() const {
  MutexLock lock(mutex_);
  std::map<int, WorkerStats> workers;
  // Workers that were ever ready are reported, even if their lanes are gone after a pause.
  for (const auto& [worker, done] : done_on_) workers[worker].done = done;
  for (const auto& [worker, lane] : lanes_) {
    workers[worker].ready = lane.ready;
    workers[worker].in_flight = lane.in_flight;
  }
  return workers;
}

}  // namespace cohort
