#include "coordinator/schedule/slot_table.h"

#include <algorithm>
#include <utility>

namespace cohort {

bool SlotTable::Attach(int worker, const proto::TaskRef& task, const std::string& address,
                       std::shared_ptr<Channel> channel) {
  WorkerSlots& lane = lanes_[worker];
  if (!lane.on_drained.empty()) return false;
  done_on_.emplace(worker, 0);
  // If a new process of the worker serves, it holds none of the resources that the earlier process
  // was given.
  if (lane.task.incarnation() != task.incarnation()) {
    lane.prepared.clear();
    lane.hold_until = absl::InfinitePast();
  }
  lane.task = task;
  lane.address = address;
  // Each attachment gets a session of its own. So a fence of the earlier session does not refuse
  // the pushes of this one.
  lane.session = ++last_session_;
  lane.channel = std::move(channel);
  lane.ready = true;
  return true;
}

void SlotTable::Clear() {
  // A worker that is being removed stays in the table until TakeDrained() has returned its
  // callbacks.
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    it->second.in_flight = 0;
    it = it->second.on_drained.empty() ? lanes_.erase(it) : std::next(it);
  }
}

void SlotTable::Remove(int worker, absl::AnyInvocable<void()> drained) {
  WorkerSlots& lane = lanes_[worker];
  lane.ready = false;
  lane.on_drained.push_back(std::move(drained));
}

std::vector<absl::AnyInvocable<void()>> SlotTable::TakeDrained() {
  std::vector<absl::AnyInvocable<void()>> taken;
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (it->second.on_drained.empty() || it->second.in_flight > 0) {
      ++it;
      continue;
    }
    for (auto& drained : it->second.on_drained) taken.push_back(std::move(drained));
    done_on_.erase(it->first);
    it = lanes_.erase(it);
  }
  return taken;
}

const WorkerSlots* SlotTable::Find(int worker) const {
  const auto found = lanes_.find(worker);
  return found == lanes_.end() ? nullptr : &found->second;
}

bool SlotTable::Serves(const GangMember& member) const {
  const WorkerSlots* const lane = Find(member.worker);
  return lane != nullptr && lane->ready && lane->session == member.session;
}

absl::Time SlotTable::Hold(int worker, absl::Time now, absl::Duration silent) {
  WorkerSlots& slots = lanes_.at(worker);
  slots.held = std::min(std::max(silent, 2 * slots.held), kHoldMax);
  slots.hold_until = now + slots.held;
  return slots.hold_until;
}

void SlotTable::CountDone(int worker) {
  ++done_on_[worker];
  if (const auto found = lanes_.find(worker); found != lanes_.end()) {
    found->second.held = absl::ZeroDuration();
  }
}

bool SlotTable::AnotherServes(int worker, absl::Time now) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane.first != worker && lane.second.ready && lane.second.hold_until <= now;
  });
}

bool SlotTable::HasRoom(int worker, absl::Time now) const {
  const WorkerSlots* const lane = Find(worker);
  return lane != nullptr && lane->ready && lane->on_drained.empty() && lane->hold_until <= now &&
         lane->in_flight < slots_of_each_;
}

int SlotTable::Choose(absl::Time now, absl::FunctionRef<bool(int worker)> may) {
  int chosen = -1;
  const auto consider = [&](int worker, const WorkerSlots& lane) {
    if (!HasRoom(worker, now) || !may(worker)) return;
    if (chosen < 0 || lane.in_flight < lanes_.at(chosen).in_flight) chosen = worker;
  };
  // The search starts after the worker that was chosen last. So workers with equal room take turns.
  const auto begin = lanes_.upper_bound(last_);
  for (auto it = begin; it != lanes_.end(); ++it) consider(it->first, it->second);
  for (auto it = lanes_.begin(); it != begin; ++it) consider(it->first, it->second);
  if (chosen >= 0) last_ = chosen;
  return chosen;
}

GangMember SlotTable::Take(int worker) {
  WorkerSlots& lane = lanes_.at(worker);
  ++lane.in_flight;
  return {worker, lane.session, lane.task, lane.channel};
}

void SlotTable::Return(const std::vector<GangMember>& members) {
  for (const GangMember& member : members) --lanes_.at(member.worker).in_flight;
}

bool SlotTable::HasResource(int worker, const std::string& key) const {
  const WorkerSlots* const lane = Find(worker);
  return lane != nullptr && lane->prepared.count(key) > 0;
}

void SlotTable::AddResource(const GangMember& member, const std::string& key) {
  WorkerSlots& lane = lanes_.at(member.worker);
  if (lane.task.incarnation() == member.task.incarnation()) lane.prepared.insert(key);
}

void SlotTable::ForgetResources(const GangMember& member) {
  WorkerSlots& lane = lanes_.at(member.worker);
  if (lane.task.incarnation() == member.task.incarnation()) lane.prepared.clear();
}

std::map<int, WorkerStats> SlotTable::stats() const {
  std::map<int, WorkerStats> stats;
  // Every worker that has ever served is listed, even if Clear() has taken its slots away.
  for (const auto& [worker, done] : done_on_) stats[worker].done = done;
  for (const auto& [worker, lane] : lanes_) {
    stats[worker].ready = lane.ready;
    stats[worker].in_flight = lane.in_flight;
  }
  return stats;
}

}  // namespace cohort
