#include "coordinator/schedule/slot_table.h"

#include <algorithm>
#include <utility>

namespace cohort {

bool SlotTable::Attach(int worker, const proto::TaskRef& task, const std::string& address,
                       std::shared_ptr<Channel> channel) {
  WorkerSlots& slots = slots_[worker];
  if (!slots.on_drained.empty()) return false;
  done_on_.emplace(worker, 0);
  // If a new process of the worker serves, it holds none of the resources that the earlier process
  // was given.
  if (slots.task.incarnation() != task.incarnation()) {
    slots.prepared.clear();
    slots.hold_until = absl::InfinitePast();
  }
  slots.task = task;
  slots.address = address;
  // Each attachment gets a session of its own. So a fence of the earlier session does not refuse
  // the pushes of this one.
  slots.session = ++last_session_;
  slots.channel = std::move(channel);
  slots.ready = true;
  return true;
}

void SlotTable::Clear() {
  // A worker that is being removed stays in the table until TakeDrained() has returned its
  // callbacks.
  for (auto it = slots_.begin(); it != slots_.end();) {
    it->second.in_flight = 0;
    it = it->second.on_drained.empty() ? slots_.erase(it) : std::next(it);
  }
}

void SlotTable::Remove(int worker, absl::AnyInvocable<void()> drained) {
  WorkerSlots& slots = slots_[worker];
  slots.ready = false;
  slots.on_drained.push_back(std::move(drained));
}

std::vector<absl::AnyInvocable<void()>> SlotTable::TakeDrained() {
  std::vector<absl::AnyInvocable<void()>> taken;
  for (auto it = slots_.begin(); it != slots_.end();) {
    if (it->second.on_drained.empty() || it->second.in_flight > 0) {
      ++it;
      continue;
    }
    for (auto& drained : it->second.on_drained) taken.push_back(std::move(drained));
    done_on_.erase(it->first);
    it = slots_.erase(it);
  }
  return taken;
}

const WorkerSlots* SlotTable::Find(int worker) const {
  const auto found = slots_.find(worker);
  return found == slots_.end() ? nullptr : &found->second;
}

bool SlotTable::Serves(const GangMember& member) const {
  const WorkerSlots* const slots = Find(member.worker);
  return slots != nullptr && slots->ready && slots->session == member.session;
}

absl::Time SlotTable::Hold(int worker, absl::Time now, absl::Duration silent) {
  WorkerSlots& slots = slots_.at(worker);
  slots.held = std::min(std::max(silent, 2 * slots.held), kHoldMax);
  slots.hold_until = now + slots.held;
  return slots.hold_until;
}

void SlotTable::CountDone(int worker) {
  ++done_on_[worker];
  if (const auto found = slots_.find(worker); found != slots_.end()) {
    found->second.held = absl::ZeroDuration();
  }
}

bool SlotTable::AnotherServes(int worker, absl::Time now) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const auto& slots) {
    return slots.first != worker && slots.second.ready && slots.second.hold_until <= now;
  });
}

bool SlotTable::HasRoom(int worker, absl::Time now) const {
  const WorkerSlots* const slots = Find(worker);
  return slots != nullptr && slots->ready && slots->on_drained.empty() &&
         slots->hold_until <= now && slots->in_flight < slots_of_each_;
}

int SlotTable::Choose(absl::Time now, absl::FunctionRef<bool(int worker)> may) {
  int chosen = -1;
  const auto consider = [&](int worker, const WorkerSlots& slots) {
    if (!HasRoom(worker, now) || !may(worker)) return;
    if (chosen < 0 || slots.in_flight < slots_.at(chosen).in_flight) chosen = worker;
  };
  // The search starts after the worker that was chosen last. So workers with equal room take turns.
  const auto begin = slots_.upper_bound(last_);
  for (auto it = begin; it != slots_.end(); ++it) consider(it->first, it->second);
  for (auto it = slots_.begin(); it != begin; ++it) consider(it->first, it->second);
  if (chosen >= 0) last_ = chosen;
  return chosen;
}

GangMember SlotTable::Take(int worker) {
  WorkerSlots& slots = slots_.at(worker);
  ++slots.in_flight;
  return {worker, slots.session, slots.task, slots.channel};
}

void SlotTable::Return(const std::vector<GangMember>& members) {
  for (const GangMember& member : members) --slots_.at(member.worker).in_flight;
}

bool SlotTable::HasResource(int worker, const std::string& key) const {
  const WorkerSlots* const slots = Find(worker);
  return slots != nullptr && slots->prepared.count(key) > 0;
}

void SlotTable::AddResource(const GangMember& member, const std::string& key) {
  WorkerSlots& slots = slots_.at(member.worker);
  if (slots.task.incarnation() == member.task.incarnation()) slots.prepared.insert(key);
}

void SlotTable::ForgetResources(const GangMember& member) {
  WorkerSlots& slots = slots_.at(member.worker);
  if (slots.task.incarnation() == member.task.incarnation()) slots.prepared.clear();
}

std::map<int, WorkerStats> SlotTable::stats() const {
  std::map<int, WorkerStats> stats;
  // Every worker that has ever served is listed, even if Clear() has taken its slots away.
  for (const auto& [worker, done] : done_on_) stats[worker].done = done;
  for (const auto& [worker, slots] : slots_) {
    stats[worker].ready = slots.ready;
    stats[worker].in_flight = slots.in_flight;
  }
  return stats;
}

}  // namespace cohort
