// Watch, and when a task is orphaned.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/task_service_state.h"

namespace cohort {

namespace {
// A Watch is renewed by its caller, so nothing is lost when a huge wait is cut down.
constexpr int64_t kWatchWaitMsMax = 10 * 60 * 1000;
}  // namespace

Envelope<proto::WatchResponse> TaskService::State::WatchAnswer(proto::TaskState state) const {
  Envelope<proto::WatchResponse> answer;
  *answer.header.mutable_task() = ref_;
  answer.header.set_state(state);
  return answer;
}

void TaskService::State::Watch(Envelope<proto::WatchRequest> request, WatchReply reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  const int64_t wait_ms = std::min(request.header.max_wait_ms(), kWatchWaitMsMax);
  const absl::Time now = clock_.Now();
  proto::TaskState state = proto::TASK_UNKNOWN;
  bool gone = false;
  bool set_orphan_timer = false;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    state = state_;
    gone = stopped_ || epoch_ != request.header.epoch();
    if (!gone && state == request.header.known_state() && wait_ms > 0) {
      id = ++last_waiter_;
      waiters_[id].reply = std::move(reply);
    }
    if (!gone) {
      hold_.Hear(now);
      set_orphan_timer = HeardLocked(now);
    }
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  if (gone) {
    absl::Status epoch = CheckEpoch(request.header.epoch());
    return reply(epoch.ok() ? absl::UnavailableError(absl::StrCat(TaskName(ref_), " stops"))
                            : epoch);
  }
  if (id == 0) return reply(WatchAnswer(state));
  const TimerId timer =
      clock_.CallAt(now + absl::Milliseconds(wait_ms), [weak = weak_from_this(), id] {
        if (auto self = weak.lock()) self->Wake(id);
      });
  {
    MutexLock lock(mutex_);
    const auto found = waiters_.find(id);
    if (found != waiters_.end()) {
      found->second.timer = timer;
      return;
    }
  }
  clock_.Cancel(timer);  // answered in between
}

void TaskService::State::Wake(uint64_t waiter) {
  const absl::Time now = clock_.Now();
  WatchReply reply;
  proto::TaskState state = proto::TASK_UNKNOWN;
  bool set_orphan_timer = false;
  {
    MutexLock lock(mutex_);
    const auto found = waiters_.find(waiter);
    if (found == waiters_.end()) return;
    reply = std::move(found->second.reply);
    waiters_.erase(found);
    state = state_;
    set_orphan_timer = HeardLocked(now);
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  reply(WatchAnswer(state));
}

std::vector<TypedReply<proto::WatchResponse>> TaskService::State::TakeWaiters() {
  std::map<uint64_t, Waiter> waiters;
  {
    MutexLock lock(mutex_);
    waiters.swap(waiters_);
  }
  std::vector<WatchReply> replies;
  for (auto& [id, waiter] : waiters) {
    clock_.Cancel(waiter.timer);
    replies.push_back(std::move(waiter.reply));
  }
  return replies;
}

void TaskService::State::StartOrphanWatch() {
  const absl::Time now = clock_.Now();
  bool set_timer = false;
  {
    MutexLock lock(mutex_);
    set_timer = HeardLocked(now);
  }
  if (set_timer) SetOrphanTimer(now + options_.orphan_timeout);
}

// One timer stands for all that is heard meanwhile: when it goes off too early it is set again, so
// a Watch that is renewed every second costs no timer a second.
bool TaskService::State::HeardLocked(absl::Time now) {
  if (options_.orphan_timeout <= absl::ZeroDuration() || orphaned_) return false;
  last_heard_ = now;
  return !std::exchange(orphan_timer_set_, true);
}

void TaskService::State::SetOrphanTimer(absl::Time due) {
  clock_.CallAt(due, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnOrphanTimer();
  });
}

void TaskService::State::OnOrphanTimer() {
  const absl::Time now = clock_.Now();
  absl::Time due;
  {
    MutexLock lock(mutex_);
    orphan_timer_set_ = false;
    // The end of an open Watch sets the timer again; a task that ends anyway is left alone.
    if (stopped_ || shut_down_ || state_ != proto::SERVING || !waiters_.empty()) return;
    due = last_heard_ + options_.orphan_timeout;
    (due > now ? orphan_timer_set_ : orphaned_) = true;
  }
  if (due > now) return SetOrphanTimer(due);
  if (options_.on_orphaned) options_.on_orphaned();
}

}  // namespace cohort
