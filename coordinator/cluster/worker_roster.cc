#include "coordinator/cluster/worker_roster.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace cohort {

namespace {

absl::Status CheckIsWorker(TaskId task) {
  if (task.role == Role::kWorker && task.index >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(task.ToString(), " is not a worker: only workers come and go while a job runs"));
}

}  // namespace

WorkerRoster::WorkerRoster(const ClusterSpec& spec, WorkerLimits limits) : limits_(limits) {
  // The position of the next worker. The spec lists workers in the order of their indices.
  int workers = 0;
  for (const auto& [task, address] : spec.tasks()) {
    if (task.role != Role::kPs && task.role != Role::kWorker) continue;
    members_[task] = Member{address, task.role == Role::kWorker ? workers++ : 0, false};
  }
}

absl::Status WorkerRoster::Add(TaskId task, std::string address) {
  if (absl::Status worker = CheckIsWorker(task); !worker.ok()) return worker;
  if (const Member* member = Find(task)) {
    return absl::AlreadyExistsError(
        absl::StrCat(task.ToString(), " is a worker of this job already",
                     member->address.empty() ? "" : absl::StrCat(", at ", member->address)));
  }
  for (const auto& [other, member] : members_) {
    // Two members cannot have the same address, because one process serves as one task.
    if (address.empty() || member.address != address) continue;
    return absl::AlreadyExistsError(absl::StrCat(address, " is the address of ", other.ToString()));
  }
  const absl::Status room = limits_.CheckHasRoom(Tasks(Role::kWorker).size());
  if (!room.ok()) return Annotate(room, absl::StrCat(task.ToString(), " cannot be added"));
  members_[task] = Member{std::move(address), FreePosition(), true};
  return absl::OkStatus();
}

absl::Status WorkerRoster::Remove(TaskId task) {
  if (absl::Status worker = CheckIsWorker(task); !worker.ok()) return worker;
  const std::vector<TaskId> workers = Tasks(Role::kWorker);
  if (Find(task) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(task.ToString(), " is not a worker of this job; they are ",
                     absl::StrJoin(workers, ", ", [](std::string* out, TaskId worker) {
                       absl::StrAppend(out, worker.ToString());
                     })));
  }
  if (workers.size() <= static_cast<size_t>(limits_.min)) {
    return absl::FailedPreconditionError(
        absl::StrCat(task.ToString(), " cannot be removed: the job has ", workers.size(),
                     " worker(s) and cluster.min_workers is ", limits_.min));
  }
  members_.erase(task);
  return absl::OkStatus();
}

void WorkerRoster::Move(TaskId task, std::string address) {
  const auto found = members_.find(task);
  if (found != members_.end()) found->second.address = std::move(address);
}

const Member* WorkerRoster::Find(TaskId task) const {
  const auto found = members_.find(task);
  return found == members_.end() ? nullptr : &found->second;
}

std::vector<TaskId> WorkerRoster::Tasks(Role role) const {
  std::vector<TaskId> tasks;
  for (const auto& [task, member] : members_) {
    if (task.role == role) tasks.push_back(task);
  }
  return tasks;
}

int WorkerRoster::FreePosition() const {
  std::set<int> taken;
  for (const TaskId worker : Tasks(Role::kWorker)) taken.insert(members_.at(worker).position);
  int position = 0;
  while (taken.count(position) > 0) ++position;
  return position;
}

}  // namespace cohort
