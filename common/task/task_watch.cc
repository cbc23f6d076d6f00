// Watch, and when a task is orphaned.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/task/task_service_state.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// A Watch is renewed by its caller, so nothing is lost when a huge wait is cut down.
constexpr int64_t kWatchWaitMsMax = 10 * 60 * 1000;
}  // namespace

Envelope<proto::WatchResponse> TaskService::State::WatchAnswerLocked() const {
  Envelope<proto::WatchResponse> answer;
  *answer.header.mutable_task() = ref_;
  answer.header.set_state(state_);
  answer.header.set_reach(reach_);
  *answer.header.mutable_unreached() = {unreached_.begin(), unreached_.end()};
  if (state_ == proto::DRAINING) {
    answer.header.set_leaves_in_ms(absl::ToInt64Milliseconds(leaves_in_));
  }
  return answer;
}

void TaskService::State::LogUnreachedBy(const proto::WatchRequest& request) {
  std::set<std::string> now;
  for (const proto::TaskRef& peer : request.unreached_by()) now.insert(TaskName(peer));
  std::set<std::string> before;
  {
    MutexLock lock(mutex_);
    before = std::exchange(unreached_by_, now);
  }
  for (const std::string& peer : now) {
    if (before.count(peer) > 0) continue;
    Log(LogLevel::kWarning, "unreached_by", {{"task", TaskName(ref_)}, {"peer", peer}});
  }
  for (const std::string& peer : before) {
    if (now.count(peer) > 0) continue;
    Log(LogLevel::kInfo, "reached_again_by", {{"task", TaskName(ref_)}, {"peer", peer}});
  }
}

void TaskService::State::Watch(Envelope<proto::WatchRequest> request, WatchReply reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  LogUnreachedBy(request.header);
  const int64_t wait_ms = std::min(request.header.max_wait_ms(), kWatchWaitMsMax);
  const absl::Time now = clock_.Now();
  Envelope<proto::WatchResponse> answer;
  bool gone = false;
  bool set_orphan_timer = false;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    answer = WatchAnswerLocked();
    gone = stopped_ || epoch_ != request.header.epoch();
    const bool is_known =
        state_ == request.header.known_state() && reach_ == request.header.known_reach();
    if (!gone && is_known && wait_ms > 0) {
      id = ++last_waiter_;
      waiters_[id].reply = std::move(reply);
    }
    if (!gone) {
      hold_.Hear(now);
      set_orphan_timer = HeardLocked(now);
    }
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  if (request.header.known_state() == proto::DRAINING) heard_of_leave_.Notify();
  if (gone) {
    absl::Status epoch = CheckEpoch(request.header.epoch());
    return reply(epoch.ok() ? absl::UnavailableError(absl::StrCat(TaskName(ref_), " stops"))
                            : epoch);
  }
  if (id == 0) return reply(std::move(answer));
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
  Envelope<proto::WatchResponse> answer;
  bool set_orphan_timer = false;
  {
    MutexLock lock(mutex_);
    const auto found = waiters_.find(waiter);
    if (found == waiters_.end()) return;
    reply = std::move(found->second.reply);
    waiters_.erase(found);
    answer = WatchAnswerLocked();
    set_orphan_timer = HeardLocked(now);
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  reply(std::move(answer));
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

void TaskService::State::SetUnreached(std::vector<proto::TaskRef> peers) {
  {
    MutexLock lock(mutex_);
    ++reach_;
    unreached_ = std::move(peers);
  }
  WakeAll();
}

void TaskService::State::WakeAll() {
  const absl::Time now = clock_.Now();
  Envelope<proto::WatchResponse> answer;
  bool set_orphan_timer = false;
  {
    MutexLock lock(mutex_);
    answer = WatchAnswerLocked();
    if (!waiters_.empty()) set_orphan_timer = HeardLocked(now);
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  for (WatchReply& reply : TakeWaiters()) reply(answer);
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
