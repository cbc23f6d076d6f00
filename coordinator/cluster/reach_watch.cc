#include "coordinator/cluster/reach_watch.h"

#include <iterator>
#include <utility>

#include "common/base/log.h"

namespace cohort {

namespace {

// Fractions of the lease. kSettlePart: how long a pair of tasks must be reported before it counts
// as broken. kLookPart: how often reported pairs are checked. A worker reports a peer that it does
// not reach after half a lease, so a broken pair is found within one lease.
constexpr double kSettlePart = 0.2;
constexpr double kLookPart = 0.1;

TaskId TaskOf(const proto::TaskRef& ref) {
  return {ref.role() == RoleName(Role::kPs) ? Role::kPs : Role::kWorker, ref.index()};
}

// Returns whether the task is a ps or a worker. Only tasks of these roles call each other.
bool IsPeer(const proto::TaskRef& ref) {
  return ref.role() == RoleName(Role::kPs) || ref.role() == RoleName(Role::kWorker);
}

}  // namespace

ReachWatch::ReachWatch(Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)), edges_(options_.lease * kSettlePart) {}

void ReachWatch::Report(const proto::TaskRef& from, const std::vector<proto::TaskRef>& peers) {
  if (!IsPeer(from)) return;
  std::set<TaskId> unreached;
  for (const proto::TaskRef& peer : peers) {
    if (IsPeer(peer)) unreached.insert(TaskOf(peer));
  }
  {
    MutexLock lock(mutex_);
    reporters_[TaskOf(from)] = from.incarnation();
    edges_.Report(TaskOf(from), unreached, clock_.Now());
  }
  Look();
}

void ReachWatch::OnServing(const proto::TaskRef& task) {
  {
    MutexLock lock(mutex_);
    const auto known = reporters_.find(TaskOf(task));
    // Reports stay valid if the same process serves. If a new process serves, the reports of the
    // earlier one are forgotten.
    if (known == reporters_.end() || known->second == task.incarnation()) return;
  }
  OnLost(TaskOf(task));
}

void ReachWatch::OnLost(TaskId task) {
  {
    MutexLock lock(mutex_);
    if (reporters_.erase(task) == 0) return;
    edges_.Forget(task);
  }
  Look();
}

void ReachWatch::Look() {
  std::set<TaskId> heard;
  {
    MutexLock lock(mutex_);
    heard = edges_.Waiting();
  }
  // The callback is_heard is called without the lock, because it calls the cluster.
  for (auto task = heard.begin(); task != heard.end();) {
    task = options_.is_heard(*task) ? std::next(task) : heard.erase(task);
  }
  std::vector<Edges::Change> changes;
  bool set_timer = false;
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    changes = edges_.Update(now, heard);
    // Only one timer at a time is set for the next check, however many reports arrive.
    set_timer = !edges_.Waiting().empty() && !std::exchange(timer_set_, true);
  }
  if (set_timer) {
    clock_.CallAt(now + options_.lease * kLookPart, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      {
        MutexLock lock(self->mutex_);
        self->timer_set_ = false;
      }
      self->Look();
    });
  }
  for (const auto& [pair, broken] : changes) {
    Log(broken ? LogLevel::kWarning : LogLevel::kInfo, broken ? "pair_broken" : "pair_healed",
        {{"one", pair.first.ToString()}, {"other", pair.second.ToString()}});
  }
  if (!changes.empty()) options_.on_change();
}

std::set<TaskPair> ReachWatch::broken() const {
  MutexLock lock(mutex_);
  return edges_.broken();
}

std::vector<proto::TaskRef> ReachWatch::UnreachedBy(TaskId task) const {
  std::vector<proto::TaskRef> refs;
  MutexLock lock(mutex_);
  for (const TaskId other : edges_.BrokenWith(task)) {
    proto::TaskRef& ref = refs.emplace_back();
    ref.set_role(RoleName(other.role));
    ref.set_index(other.index);
  }
  return refs;
}

}  // namespace cohort
