#include "common/task/task_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// The time within which a living coordinator, through its open Watch, acknowledges that a task is
// leaving.
constexpr absl::Duration kHeardWithin = absl::Seconds(1);
// The longest wait of a Watch call. A Watch that asks for a longer wait is answered after this
// time. Nothing is lost, because the coordinator calls Watch again after each answer.
constexpr int64_t kWatchWaitMsMax = 10 * 60 * 1000;

// Returns the grant that an Attach request asks for, with the default lease if the request has
// none.
EpochGrant GrantOf(const proto::AttachRequest& request) {
  const absl::Duration lease = absl::Milliseconds(request.lease_ms());
  return {request.epoch(), request.coordinator_incarnation(), request.job(),
          lease > absl::ZeroDuration() ? lease : kDefaultLease, request.coordinator_place()};
}

}  // namespace

proto::TaskRef TaskState::RefOf(const TaskOptions& options) {
  proto::TaskRef ref;
  ref.set_role(RoleName(options.task.role));
  ref.set_index(options.task.index);
  ref.set_incarnation(options.incarnation);
  return ref;
}

absl::Status TaskState::Stale(absl::string_view what) const {
  return WithOrigin(MakeError(absl::StatusCode::kFailedPrecondition,
                              absl::StrCat(TaskName(ref_), ": ", what), proto::STALE),
                    ref_);
}

absl::Status TaskState::CheckEpoch(uint64_t epoch) const {
  uint64_t held = 0;
  std::string holder;
  {
    MutexLock lock(mutex_);
    held = epoch_;
    // Epoch 0 means that no coordinator has attached, so a call with epoch 0 is refused even if the
    // task's own epoch is 0.
    if (held == epoch && held != 0) return absl::OkStatus();
    holder = hold_.Holder();
  }
  if (held == 0) {
    return Stale(absl::StrCat("no coordinator has attached (held epoch 0) and the call has epoch ",
                              epoch, "; attach first"));
  }
  return Stale(absl::StrCat("the call has epoch ", epoch, " and the attached epoch is ", held,
                            ", held by ", holder));
}

std::string TaskState::Holder() {
  MutexLock lock(mutex_);
  return hold_.Holder();
}

absl::StatusOr<uint64_t> TaskState::TakeEpoch(const proto::AttachRequest& request) {
  if (request.epoch() == 0) {
    return WithOrigin(
        MakeError(absl::StatusCode::kInvalidArgument,
                  "AttachRequest.epoch is 0; epochs count from 1", proto::APPLICATION),
        ref_);
  }
  if (request.coordinator_place().size() > kPlaceBytesMax) {
    return WithOrigin(MakeError(absl::StatusCode::kInvalidArgument,
                                absl::StrCat("AttachRequest.coordinator_place has ",
                                             request.coordinator_place().size(),
                                             " bytes; it may have at most ", kPlaceBytesMax),
                                proto::APPLICATION),
                      ref_);
  }
  const EpochGrant wanted = GrantOf(request);
  const absl::Time now = clock_.Now();
  // The hold is checked here and granted below, under two locks. No other Attach can change the
  // hold in between, because every Attach runs on the strand.
  absl::Status refused;
  bool is_held = false;
  bool ends = false;
  {
    MutexLock lock(mutex_);
    const auto manner =
        request.take_over() ? TaskHold::Manner::kTakeOver : TaskHold::Manner::kIfFree;
    refused = hold_.Check(wanted, manner, now);
    is_held = hold_.IsHeldBy(wanted);
    ends = stopped_ || shut_down_ || state_ != proto::SERVING;
  }
  if (ends) {
    return WithOrigin(
        MakeError(absl::StatusCode::kUnavailable, absl::StrCat(TaskName(ref_), " is shutting down"),
                  proto::TRANSIENT),
        ref_);
  }
  if (!refused.ok()) return WithOrigin(Annotate(refused, TaskName(ref_)), ref_);
  // on_grant is called without the lock, because it may block while it writes the grant to a file.
  if (!is_held && options_.on_grant) {
    if (absl::Status status = options_.on_grant(wanted); !status.ok()) {
      return WithOrigin(
          MakeError(absl::StatusCode::kUnavailable, status.message(), proto::TRANSIENT), ref_);
    }
  }
  uint64_t before = 0;
  bool set_timer = false;
  {
    MutexLock lock(mutex_);
    // The new coordinator becomes the holder only after on_grant has succeeded. If on_grant fails,
    // the old holder keeps the task.
    hold_.Grant(wanted, now);
    lets_go_ = request.lets_go();
    before = std::exchange(epoch_, wanted.epoch);
    set_timer = HeardLocked(now);
  }
  if (set_timer) SetOrphanTimer(now + options_.orphan_timeout);
  return before;
}

void TaskState::Attach(Envelope<proto::AttachRequest> request,
                       TypedReply<proto::AttachResponse> reply) {
  strand_.Post(
      [self = shared_from_this(), request = std::move(request.header),
       reply = std::move(reply)]() mutable { self->AttachOnStrand(request, std::move(reply)); });
}

void TaskState::AttachOnStrand(const proto::AttachRequest& request,
                               TypedReply<proto::AttachResponse> reply) {
  const absl::StatusOr<uint64_t> before = TakeEpoch(request);
  if (!before.ok()) return reply(before.status());
  if (*before != request.epoch()) {
    // The open Watch calls of the old epoch's coordinator end with STALE, which tells that
    // coordinator that it has lost the task.
    const std::string holder = Holder();
    for (WatchReply& waiter : TakeWaiters()) {
      waiter(Stale(absl::StrCat("epoch ", request.epoch(), ", held by ", holder,
                                ", took over from epoch ", *before)));
    }
  }
  // on_attach is called before the Attach is answered, so that the coordinator's next call finds
  // the task with the new peers.
  if (options_.on_attach) options_.on_attach(request);
  Envelope<proto::AttachResponse> answer;
  *answer.header.mutable_task() = ref_;
  answer.header.set_held_epoch(*before);
  answer.header.set_memory_bytes(options_.memory_bytes);
  reply(std::move(answer));
}

void TaskState::GetStatus(Envelope<proto::GetStatusRequest> request,
                          TypedReply<proto::GetStatusResponse> reply) {
  Envelope<proto::GetStatusResponse> answer;
  *answer.header.mutable_task() = ref_;
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    answer.header.set_state(state_);
    answer.header.set_epoch(hold_.grant().epoch);
    answer.header.set_coordinator_incarnation(hold_.grant().coordinator_incarnation);
    *answer.header.mutable_job() = hold_.grant().job;
    answer.header.set_coordinator_place(hold_.grant().place);
    // The remaining lease is rounded up, so that a coordinator that waits for this time finds the
    // lease over.
    const absl::Duration kept = absl::Ceil(hold_.Kept(now), absl::Milliseconds(1));
    answer.header.set_kept_ms(absl::ToInt64Milliseconds(kept));
    answer.header.set_heard(hold_.heard());
  }
  reply(std::move(answer));
}

void TaskState::Shutdown(Envelope<proto::ShutdownRequest> request,
                         TypedReply<proto::ShutdownResponse> reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = !std::exchange(shut_down_, true);
  }
  // The Shutdown is answered before on_shutdown runs, because on_shutdown begins to stop the task.
  reply(Envelope<proto::ShutdownResponse>());
  may_leave_.Notify();
  if (first && options_.on_shutdown) options_.on_shutdown();
}

void TaskState::Release(Envelope<proto::ReleaseRequest> request,
                        TypedReply<proto::ReleaseResponse> reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  {
    MutexLock lock(mutex_);
    // If another coordinator has attached since CheckEpoch, the hold is that coordinator's, and it
    // is not released.
    if (epoch_ == request.header.epoch()) hold_.Release();
  }
  reply(Envelope<proto::ReleaseResponse>());
}

void TaskState::StartLeaving(absl::Duration patience) {
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    // The task waits for Shutdown only if its holder is alive and has promised to send Shutdown.
    // Any other wait would only delay the end of the task.
    const bool waits = lets_go_ && !shut_down_ && hold_.Kept(now) > absl::ZeroDuration();
    leaves_in_ = waits ? patience : absl::ZeroDuration();
    state_ = proto::DRAINING;
  }
  WakeAll();
}

void TaskState::WaitToLeave(absl::Duration patience) {
  {
    MutexLock lock(mutex_);
    if (leaves_in_ <= absl::ZeroDuration()) return;
  }
  const absl::Time end = clock_.Now() + patience;
  // If the coordinator does not soon acknowledge that the task is leaving, the coordinator is dead
  // or has no Watch open. The task then does not wait for Shutdown.
  if (heard_of_leave_.WaitFor(std::min(patience, kHeardWithin))) {
    may_leave_.WaitFor(end - clock_.Now());
  }
}

void TaskState::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  for (WatchReply& reply : TakeWaiters()) {
    reply(absl::UnavailableError(absl::StrCat(TaskName(ref_), " stops")));
  }
}

Envelope<proto::WatchResponse> TaskState::WatchAnswerLocked() const {
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

void TaskState::LogUnreachedBy(const proto::WatchRequest& request) {
  std::set<std::string> now;
  for (const proto::TaskRef& peer : request.unreached_by()) now.insert(TaskName(peer));
  std::set<std::string> before;
  {
    MutexLock lock(mutex_);
    // Every Watch request repeats the whole set of tasks that do not reach this task, so only
    // changes of the set are logged.
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

void TaskState::Watch(Envelope<proto::WatchRequest> request, WatchReply reply) {
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
    // Another coordinator may have attached, or Stop() may have run, between CheckEpoch and this
    // lock. So both are checked again.
    gone = stopped_ || epoch_ != request.header.epoch();
    // A Watch is answered at once if its caller does not know the task's present state or the
    // latest set of unreached tasks. Otherwise the Watch stays open.
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
  // If the coordinator's request says that it knows the state DRAINING, the coordinator has learnt
  // that the task is leaving.
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
    // If the Watch is no longer in waiters_, another thread has answered it while the timer was
    // being set.
    if (found != waiters_.end()) {
      found->second.timer = timer;
      return;
    }
  }
  // The Watch was answered before its timer was stored in waiters_, so no one else can cancel the
  // timer.
  clock_.Cancel(timer);
}

void TaskState::Wake(uint64_t waiter) {
  const absl::Time now = clock_.Now();
  WatchReply reply;
  Envelope<proto::WatchResponse> answer;
  bool set_orphan_timer = false;
  {
    MutexLock lock(mutex_);
    const auto found = waiters_.find(waiter);
    if (found == waiters_.end()) return;
    // A Watch is answered by the thread that removes the Watch from waiters_, so it is answered
    // only once.
    reply = std::move(found->second.reply);
    waiters_.erase(found);
    answer = WatchAnswerLocked();
    set_orphan_timer = HeardLocked(now);
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  reply(std::move(answer));
}

std::vector<TypedReply<proto::WatchResponse>> TaskState::TakeWaiters() {
  std::map<uint64_t, Waiter> waiters;
  {
    MutexLock lock(mutex_);
    // The waiters are taken out of waiters_ under the lock, but answered without the lock, because
    // a reply may call back into the task.
    waiters.swap(waiters_);
  }
  std::vector<WatchReply> replies;
  for (auto& [id, waiter] : waiters) {
    clock_.Cancel(waiter.timer);
    replies.push_back(std::move(waiter.reply));
  }
  return replies;
}

void TaskState::SetUnreached(std::vector<proto::TaskRef> peers) {
  {
    MutexLock lock(mutex_);
    // `reach_` is the version of the set of unreached tasks. A Watch request with an older version
    // is answered at once.
    ++reach_;
    unreached_ = std::move(peers);
  }
  WakeAll();
}

void TaskState::WakeAll() {
  const absl::Time now = clock_.Now();
  Envelope<proto::WatchResponse> answer;
  bool set_orphan_timer = false;
  {
    MutexLock lock(mutex_);
    answer = WatchAnswerLocked();
    // A coordinator with an open Watch counts as heard from until the Watch ends. All open Watch
    // calls end here, so the time until the task is orphaned starts now.
    if (!waiters_.empty()) set_orphan_timer = HeardLocked(now);
  }
  if (set_orphan_timer) SetOrphanTimer(now + options_.orphan_timeout);
  for (WatchReply& reply : TakeWaiters()) reply(answer);
}

void TaskState::StartOrphanWatch() {
  const absl::Time now = clock_.Now();
  bool set_timer = false;
  {
    MutexLock lock(mutex_);
    set_timer = HeardLocked(now);
  }
  if (set_timer) SetOrphanTimer(now + options_.orphan_timeout);
}

// One orphan timer is enough, however often the task hears from its coordinator: when the timer
// fires, OnOrphanTimer sets it again if the task has heard from the coordinator since. So a Watch
// every second does not set a timer every second.
bool TaskState::HeardLocked(absl::Time now) {
  if (options_.orphan_timeout <= absl::ZeroDuration() || orphaned_) return false;
  last_heard_ = now;
  return !std::exchange(orphan_timer_set_, true);
}

void TaskState::SetOrphanTimer(absl::Time due) {
  clock_.CallAt(due, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnOrphanTimer();
  });
}

void TaskState::OnOrphanTimer() {
  const absl::Time now = clock_.Now();
  absl::Time due;
  {
    MutexLock lock(mutex_);
    orphan_timer_set_ = false;
    // While a Watch is open, no timer is needed: the end of the Watch sets the timer again. A task
    // that is stopping is never orphaned.
    if (stopped_ || shut_down_ || state_ != proto::SERVING || !waiters_.empty()) return;
    due = last_heard_ + options_.orphan_timeout;
    // One of the two flags is set under the lock, so that there is never a second timer, and
    // on_orphaned runs only once.
    (due > now ? orphan_timer_set_ : orphaned_) = true;
  }
  if (due > now) return SetOrphanTimer(due);
  if (options_.on_orphaned) options_.on_orphaned();
}

}  // namespace cohort
