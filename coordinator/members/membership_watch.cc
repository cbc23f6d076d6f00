#include "coordinator/members/membership_watch.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace cohort {

std::shared_ptr<MembershipWatch> MembershipWatch::Create(World world,
                                                         std::unique_ptr<MembershipSource> source,
                                                         std::shared_ptr<Cluster> cluster,
                                                         std::shared_ptr<WorkerChanges> changes) {
  return std::shared_ptr<MembershipWatch>(
      new MembershipWatch(world, std::move(source), std::move(cluster), std::move(changes)));
}

MembershipWatch::MembershipWatch(World world, std::unique_ptr<MembershipSource> source,
                                 std::shared_ptr<Cluster> cluster,
                                 std::shared_ptr<WorkerChanges> changes)
    : world_(world),
      source_(std::move(source)),
      cluster_(std::move(cluster)),
      changes_(std::move(changes)),
      strand_(world.executor) {}

void MembershipWatch::Post(absl::AnyInvocable<void()> task) {
  // The posted task holds a weak pointer, because the strand is a member of this object: if the
  // task never runs, it must not keep this object alive.
  strand_.Post([weak = weak_from_this(), task = std::move(task)]() mutable {
    const auto self = weak.lock();
    if (self != nullptr && !self->stopped_) task();
  });
}

void MembershipWatch::Start() { Tick(); }

void MembershipWatch::Stop() {
  Post([this] { stopped_ = true; });
}

void MembershipWatch::Tick() {
  world_.clock.CallAt(world_.clock.Now() + source_->interval(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self = self.get()] {
      // The next reading begins an interval after the end of this one. So a slow source is not read
      // twice at the same time.
      self->source_->Read([weak = self->weak_from_this()](absl::StatusOr<List> list) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->Post([self = self.get(), list = std::move(list)] {
          self->OnRead(list);
          self->Tick();
        });
      });
    });
  });
}

void MembershipWatch::OnRead(const absl::StatusOr<List>& list) {
  Trouble("the list", list.status());
  if (!list.ok()) {
    // After a failed reading, a list must again be read twice before it is used.
    last_read_.clear();
    return;
  }
  // A list is used only if the reading before has returned the same list.
  if (std::exchange(last_read_, *list) != *list) return;
  // If workers of the list in use are still being added, the new list is looked at again after the
  // next reading.
  if (!asked_.empty()) return;
  list_ = *list;
  seen_.insert(list_.begin(), list_.end());
  AddListed();
}

void MembershipWatch::AddListed() {
  // The worker at each listed address is asked who it is, because the address may have passed to
  // another process. Addresses at which a member serves are not asked.
  asked_ = std::set<std::string>(list_.begin(), list_.end());
  for (const Cluster::TaskStatus& member : cluster_->TaskStatuses()) {
    if (member.leaving) continue;
    found_[member.address] = member.task;
    if (member.serving) asked_.erase(member.address);
  }
  if (asked_.empty()) return RemoveUnlisted();
  // The loop runs over a copy, because OnAdded() removes addresses from asked_.
  for (const std::string& address : List(asked_.begin(), asked_.end())) {
    changes_->Add(address,
                  [self = shared_from_this(), address](absl::StatusOr<WorkerChanges::Added> added) {
                    self->Post([self = self.get(), address, added = std::move(added)] {
                      self->OnAdded(address, added);
                    });
                  });
  }
}

void MembershipWatch::OnAdded(const std::string& address,
                              const absl::StatusOr<WorkerChanges::Added>& added) {
  Trouble(address, added.status());
  if (added.ok()) found_[address] = added->task;
  asked_.erase(address);
  if (asked_.empty()) RemoveUnlisted();
}

void MembershipWatch::RemoveUnlisted() {
  std::set<std::string> listed;
  for (const std::string& address : list_) {
    const auto found = found_.find(address);
    if (found != found_.end()) listed.insert(found->second.ToString());
  }
  // The workers that were found at addresses which are or were on the list.
  std::set<std::string> known;
  for (const auto& [address, task] : found_) {
    if (seen_.count(address) > 0) known.insert(task.ToString());
  }
  const bool at_once = source_->departure() == MembershipSource::Departure::kAtOnce;
  for (const Cluster::TaskStatus& member : cluster_->TaskStatuses()) {
    const std::string name = member.task.ToString();
    if (member.task.role != Role::kWorker || member.leaving || listed.count(name) > 0) continue;
    // With a DNS name, a worker that was never on the list was added in another way, and stays.
    if (at_once || (!member.serving && known.count(name) > 0)) Remove(member.task);
  }
}

void MembershipWatch::Remove(TaskId task) {
  changes_->Remove(task, [self = shared_from_this(), task](absl::Status status) {
    self->Post([self = self.get(), task, status] { self->Trouble(task.ToString(), status); });
  });
}

void MembershipWatch::Trouble(const std::string& about, const absl::Status& status) {
  std::string& known = troubles_[about];
  const std::string text(status.message());
  // The same error is not logged twice in a row.
  if (known == text) return;
  known = text;
  if (status.ok()) return;
  Log(LogLevel::kWarning, "membership", {{"about", about}, {"cause", text}});
}

}  // namespace cohort
