// The addition and removal of workers, and the description of the members for people.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/farewell.h"

namespace cohort {

std::string Cluster::AddressOf(TaskId task) const {
  MutexLock lock(mutex_);
  return AddressOfLocked(task);
}

std::string Cluster::AddressOfLocked(TaskId task) const {
  const Member* member = roster_.Find(task);
  if (const auto found = leaving_.find(task); found != leaving_.end()) {
    member = &found->second.member;
  }
  if (member == nullptr) return kNowhere;
  // The address with which a worker was added is its own; options_.address knows the other tasks.
  const bool own = member->added && !member->address.empty();
  return options_.address && !own ? options_.address(task) : member->address;
}

bool Cluster::IsMember(TaskId task) const {
  MutexLock lock(mutex_);
  return roster_.Find(task) != nullptr;
}

absl::Status Cluster::AddWorker(TaskId task, std::string address) {
  std::shared_ptr<TaskConnection> connection;
  proto::AttachRequest attach;
  bool is_joining = false;
  {
    MutexLock lock(mutex_);
    if (leaving_.count(task) > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(task.ToString(), " is being removed: add it when it has ended"));
    }
    RETURN_IF_ERROR(roster_.Add(task, address));
    // Before the first claim all homes begin with the same initial values; later workers need a
    // copy.
    is_joining = options_.mirrored && (epoch_ > 0 || claiming_);
    if (is_joining) joining_.insert(task.index);
    // A claim that is under way attaches the worker when it is granted.
    if (epoch_ > 0 && !claiming_) {
      connection = connections_[task] = MakeConnectionLocked(task);
      attach = MakeAttachLocked(epoch_, task);
    }
  }
  Log(LogLevel::kInfo, "worker_added", {{"task", task.ToString()}, {"address", address}});
  // Outside the lock, and before the worker is attached: its waiting for a copy must be known
  // first.
  if (is_joining) options_.on_home_added(task.index);
  if (connection != nullptr) connection->Renew(std::move(attach));
  return absl::OkStatus();
}

absl::Status Cluster::CheckLeavesACopyLocked(TaskId task) const {
  // The last worker of all is refused by the roster, which knows the better reason.
  if (!options_.mirrored || roster_.Tasks(Role::kWorker).size() == 1) return absl::OkStatus();
  // A claim puts all homes back, so afterwards every home has a copy.
  const std::vector<int> have = claiming_ ? HomesLocked() : HomesInStepLocked();
  if (have != std::vector<int>{task.index}) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(task.ToString(),
                   " cannot be removed now: no other worker has the variables; "
                   "ask again when another one has got a copy (log line worker_in_step)"));
}

void Cluster::RemoveWorker(TaskId task, Farewell farewell,
                           absl::AnyInvocable<void(absl::Status)> done) {
  absl::Status refused;
  std::string address;
  uint64_t epoch = 0;
  std::shared_ptr<EpochClaim> claim;
  std::vector<ReadyWait> ready;
  {
    MutexLock lock(mutex_);
    address = AddressOfLocked(task);
    epoch = epoch_;
    const Member* const found = roster_.Find(task);
    const Member member = found == nullptr ? Member() : *found;
    refused = CheckLeavesACopyLocked(task);
    if (refused.ok()) refused = roster_.Remove(task);
    if (refused.ok()) {
      if (claiming_) claim = claim_;
      links_.erase(task);
      dropped_.erase(task.index);
      joining_.erase(task.index);
      leaving_[task] = {member, connections_[task]};
      connections_.erase(task);
      ready = TakeReadyLocked();  // waits for the removed worker may end now
    }
  }
  if (!refused.ok()) return done(refused);
  Log(LogLevel::kInfo, "worker_leaves", {{"task", task.ToString()}, {"address", address}});
  // Outside the lock: the claim may be granted at once, without this home.
  if (claim != nullptr) claim->Leave(task);
  for (ReadyWait& wait : ready) wait.done(absl::OkStatus());
  // The scheduler runs the callback when the worker has no closure in flight.
  options_.on_worker_removed(task.index, [weak = weak_from_this(), task, farewell, address, epoch,
                                          done = std::move(done)]() mutable {
    const auto self = weak.lock();
    if (self == nullptr) return done(absl::CancelledError("the coordinator ends"));
    std::shared_ptr<TaskConnection> connection;
    {
      MutexLock lock(self->mutex_);
      connection = std::move(self->leaving_[task].connection);
      self->leaving_.erase(task);
    }
    if (connection != nullptr) connection->Stop();
    Log(LogLevel::kInfo, "worker_removed", {{"task", task.ToString()}});
    // Under another coordinator the worker must live on, so it is not told to end.
    if (!self->superseded().ok()) return done(absl::OkStatus());
    SayFarewell(self->world_.transport.Connect(address, Lane::kControl), epoch, farewell,
                [task, done = std::move(done)](const absl::Status& said) mutable {
                  // The worker is lost or belongs to another coordinator by now: in both cases it
                  // is done with.
                  if (!said.ok()) {
                    Log(LogLevel::kInfo, "farewell_unheard",
                        {{"task", task.ToString()}, {"cause", said.message()}});
                  }
                  done(absl::OkStatus());
                });
  });
}

bool Cluster::MoveWorker(TaskId task, std::string address) {
  {
    MutexLock lock(mutex_);
    const Member* const member = roster_.Find(task);
    if (member == nullptr || task.role != Role::kWorker || links_.count(task) > 0) return false;
    // The connection asks for the address before each attempt, so it finds the new one by itself.
    if (member->address == address) return true;
    roster_.Move(task, address);
  }
  Log(LogLevel::kInfo, "worker_moved", {{"task", task.ToString()}, {"address", address}});
  return true;
}

std::vector<Cluster::TaskStatus> Cluster::TaskStatuses() const {
  MutexLock lock(mutex_);
  std::vector<TaskStatus> statuses;
  for (const auto& [task, member] : roster_.members()) {
    TaskStatus& status = statuses.emplace_back();
    status.task = task;
    status.address = AddressOfLocked(task);
    if (const auto link = links_.find(task); link != links_.end()) {
      status.serving = true;
      status.incarnation = link->second.task.incarnation();
    }
    status.text = DescribeLocked(task);
  }
  // Workers that are being removed are shown until their closures in flight have ended.
  for (const auto& [task, leaving] : leaving_) {
    TaskStatus& status = statuses.emplace_back();
    status.task = task;
    status.address = AddressOfLocked(task);
    status.leaving = true;
    status.text = absl::StrCat(task.ToString(), " is being removed: closures are in flight there");
  }
  return statuses;
}

}  // namespace cohort
