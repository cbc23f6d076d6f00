// The part of Cluster that adds and removes workers, knows which homes have valid copies of
// mirrored variables, and reports the loss of tasks to watches.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/farewell.h"

namespace cohort {

namespace {

// Makes the error of class WORKER_LOST for a lost task, which is the error's origin.
absl::Status WorkerLost(TaskId task, absl::string_view cause) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  detail.mutable_origin()->set_role(RoleName(task.role));
  detail.mutable_origin()->set_index(task.index);
  return WithDetail(absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", cause)),
                    detail);
}

}  // namespace

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
    // The workers that are members before the first claim all begin with the same initial values. A
    // worker that is added later needs a copy of the variables.
    is_joining = options_.mirrored && (epoch_ > 0 || claiming_);
    if (is_joining) joining_.insert(task.index);
    // If a claim is under way, the worker is attached once the new epoch is granted.
    if (epoch_ > 0 && !claiming_) {
      connection = connections_[task] = MakeConnectionLocked(task);
      attach = MakeAttachLocked(epoch_, task);
    }
  }
  if (address.empty()) {
    // A local worker has no address before its process listens.
    Log(LogLevel::kInfo, "worker_added", {{"task", task.ToString()}, {"state", "starting"}});
  } else {
    Log(LogLevel::kInfo, "worker_added", {{"task", task.ToString()}, {"address", address}});
  }
  // The callback runs without the lock, and before the worker is attached: the scheduler and Copies
  // must know first that the worker needs a copy of the variables.
  if (is_joining) options_.on_home_added(task.index);
  if (connection != nullptr) connection->Renew(std::move(attach));
  return absl::OkStatus();
}

absl::Status Cluster::CheckLeavesACopyLocked(TaskId task) const {
  // The roster refuses to remove the only worker, and gives a better reason than this method would.
  if (!options_.mirrored || roster_.Tasks(Role::kWorker).size() == 1) return absl::OkStatus();
  // If a claim is under way, all homes will be restored, so every home will have a copy.
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
      ready = TakeReadyLocked();  // some waits may have lacked only this worker
    }
  }
  if (!refused.ok()) return done(refused);
  Log(LogLevel::kInfo, "worker_leaves", {{"task", task.ToString()}, {"address", address}});
  // The claim is called without the lock: without this worker, the epoch may be granted at once.
  if (claim != nullptr) claim->Leave(task);
  for (ReadyWait& wait : ready) wait.done(absl::OkStatus());
  // The scheduler calls this callback once no closure is in flight on the worker.
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
    // If another coordinator has taken over, the worker belongs to that coordinator and is not told
    // to end.
    if (!self->superseded().ok()) return done(absl::OkStatus());
    SayFarewell(self->world_.transport.Connect(address, Lane::kControl), epoch, farewell,
                kFarewellTimeout, [task, done = std::move(done)](const absl::Status& said) mutable {
                  // If the farewell fails, the worker is lost or belongs to another coordinator.
                  // The removal has succeeded nevertheless.
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
    // A change of the roster is enough, because the connection asks for the address before each
    // attempt to attach.
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
    if (status.address == kNowhere) status.address.clear();
    if (const auto link = links_.find(task); link != links_.end()) {
      status.serving = true;
      status.incarnation = link->second.task.incarnation();
    }
    status.text = DescribeLocked(task);
  }
  // Workers that are being removed are listed until their closures in flight have ended.
  for (const auto& [task, leaving] : leaving_) {
    TaskStatus& status = statuses.emplace_back();
    status.task = task;
    status.address = AddressOfLocked(task);
    if (status.address == kNowhere) status.address.clear();
    status.leaving = true;
    status.text = absl::StrCat(task.ToString(), " is being removed: closures are in flight there");
  }
  return statuses;
}

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
  // All homes have equal copies, so a single home can write the whole checkpoint.
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
  // The copy is not valid if the coordinator has begun to change variables since it was made, or if
  // the process that got it does not serve any more.
  if (changes != changes_ || open_changes_ > 0 || link == links_.end() ||
      link->second.task.incarnation() != process.incarnation()) {
    return false;
  }
  dropped_.erase(index);
  // The home becomes the youngest member of its group (the order in which FindApart sorts members).
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
  // The connection is called without the cluster's lock, because it has a lock of its own.
  return connection->IsServing() && connection->silence() == absl::ZeroDuration();
}

void Cluster::DoubtPs(int ps) {
  if (!IsHeard(TaskId{options_.homes, ps})) SuspectPs(ps);
}

Apart Cluster::FindApart() const {
  const std::set<TaskPair> broken = reach_->broken();
  MutexLock lock(mutex_);
  const std::vector<TaskId> workers = roster_.Tasks(Role::kWorker);
  // If servers keep the variables, workers that do not reach all servers must wait. A single worker
  // that keeps the variables itself needs no server.
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
  // Members are sorted by age. First come those that have had their copy since the beginning, by
  // index; the others follow in the order in which they got their copies.
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
  // If the task was lost before the watch was added, no later report would reach the watch. So the
  // callback is called here.
  absl::Status cause = ps().status();
  if (task.has_value()) {
    MutexLock lock(mutex_);
    cause = links_.count(*task) > 0 ? absl::OkStatus() : WorkerLost(*task, DescribeLocked(*task));
  }
  if (!cause.ok()) loss_watches_.Tell(task, cause);
  return watch;
}

void Cluster::TellOfLoss(TaskId task, const absl::Status& of_home) {
  // Watches of this task get an error of class WORKER_LOST. Watches of homes get the error of class
  // PS_LOST.
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
