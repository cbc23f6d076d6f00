#include "common/wire/task_service.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"

namespace cohort {

namespace {

using WatchReply = TypedReply<proto::WatchResponse>;

// A Watch is renewed by its caller, so nothing is lost when a huge wait is cut down.
constexpr int64_t kWatchWaitMsMax = 10 * 60 * 1000;

proto::TaskRef MakeRef(const TaskService::Options& options) {
  proto::TaskRef ref;
  ref.set_role(RoleName(options.task.role));
  ref.set_index(options.task.index);
  ref.set_incarnation(options.incarnation);
  return ref;
}

}  // namespace

// Thread-safe. Attach and Shutdown run on the strand, so that on_attach sees epochs in order.
class TaskService::State : public std::enable_shared_from_this<TaskService::State> {
 public:
  State(World world, Options options)
      : clock_(world.clock),
        ref_(MakeRef(options)),
        options_(std::move(options)),
        strand_(world.executor),
        grant_(options_.granted) {}

  const proto::TaskRef& ref() const { return ref_; }
  absl::Status CheckEpoch(uint64_t epoch) const;
  void Attach(Envelope<proto::AttachRequest> request, TypedReply<proto::AttachResponse> reply);
  void Watch(Envelope<proto::WatchRequest> request, WatchReply reply);
  void GetStatus(Envelope<proto::GetStatusRequest> request,
                 TypedReply<proto::GetStatusResponse> reply);
  void Shutdown(Envelope<proto::ShutdownRequest> request,
                TypedReply<proto::ShutdownResponse> reply);
  void StartDraining();
  void Stop();
  // The time to being orphaned begins.
  void StartOrphanWatch();

 private:
  struct Waiter {
    WatchReply reply;
    TimerId timer;
  };

  void AttachOnStrand(const proto::AttachRequest& request, TypedReply<proto::AttachResponse> reply);
  // On the strand alone. The epoch that was attached before. Errors: UNAVAILABLE from a task that
  // ends: who attached it would give it work that it refuses, again and again.
  absl::StatusOr<uint64_t> TakeEpoch(const proto::AttachRequest& request);
  void Wake(uint64_t waiter);
  std::vector<WatchReply> TakeWaiters();
  // The coordinator was heard of. True when the caller is to set the orphan timer, `now` and the
  // time-out later, once it has left the lock.
  bool HeardLocked(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetOrphanTimer(absl::Time due);
  void OnOrphanTimer();
  absl::Status Stale(absl::string_view what) const;
  Envelope<proto::WatchResponse> WatchAnswer(proto::TaskState state) const;

  Clock& clock_;
  const proto::TaskRef ref_;
  const Options options_;
  Strand strand_;

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: this process was not attached
  EpochGrant grant_ ABSL_GUARDED_BY(mutex_);    // of epoch_, or of an earlier start
  proto::TaskState state_ ABSL_GUARDED_BY(mutex_) = proto::SERVING;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_heard_ ABSL_GUARDED_BY(mutex_);
  bool orphan_timer_set_ ABSL_GUARDED_BY(mutex_) = false;
  bool orphaned_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status TaskService::State::Stale(absl::string_view what) const {
  return WithOrigin(MakeError(absl::StatusCode::kFailedPrecondition,
                              absl::StrCat(TaskName(ref_), ": ", what), proto::STALE),
                    ref_);
}

absl::Status TaskService::State::CheckEpoch(uint64_t epoch) const {
  uint64_t held = 0;
  {
    MutexLock lock(mutex_);
    held = epoch_;
  }
  if (held == epoch && held != 0) return absl::OkStatus();
  if (held == 0) {
    return Stale(absl::StrCat("no coordinator has attached (held epoch 0) and the call has epoch ",
                              epoch, "; attach first"));
  }
  return Stale(absl::StrCat("the call has epoch ", epoch, " and the attached epoch is ", held));
}

absl::StatusOr<uint64_t> TaskService::State::TakeEpoch(const proto::AttachRequest& request) {
  if (request.epoch() == 0) {
    return WithOrigin(
        MakeError(absl::StatusCode::kInvalidArgument,
                  "AttachRequest.epoch is 0; epochs count from 1", proto::APPLICATION),
        ref_);
  }
  const EpochGrant wanted = {request.epoch(), request.coordinator_incarnation(), request.job()};
  EpochGrant held;
  bool ends = false;
  {
    MutexLock lock(mutex_);
    held = grant_;
    ends = stopped_ || state_ != proto::SERVING;
  }
  if (ends) {
    return WithOrigin(MakeError(absl::StatusCode::kUnavailable,
                                absl::StrCat(TaskName(ref_), " is shutting down"),
                                proto::TRANSIENT),
                      ref_);
  }
  const bool is_held = wanted.epoch == held.epoch &&
                       wanted.coordinator_incarnation == held.coordinator_incarnation;
  if (!is_held && wanted.epoch <= held.epoch) {
    return Stale(absl::StrCat("Attach with epoch ", wanted.epoch, " by coordinator incarnation ",
                              wanted.coordinator_incarnation, " refused: epoch ", held.epoch,
                              " is held by coordinator incarnation ",
                              held.coordinator_incarnation));
  }
  if (!is_held && options_.on_grant) {
    if (absl::Status status = options_.on_grant(wanted); !status.ok()) {
      return WithOrigin(MakeError(absl::StatusCode::kUnavailable, status.message(),
                                  proto::TRANSIENT),
                        ref_);
    }
  }
  const absl::Time now = clock_.Now();
  uint64_t before = 0;
  bool set_timer = false;
  {
    MutexLock lock(mutex_);
    grant_ = wanted;
    before = std::exchange(epoch_, wanted.epoch);
    set_timer = HeardLocked(now);
  }
  if (set_timer) SetOrphanTimer(now + options_.orphan_timeout);
  return before;
}

void TaskService::State::Attach(Envelope<proto::AttachRequest> request,
                                TypedReply<proto::AttachResponse> reply) {
  strand_.Post(
      [self = shared_from_this(), request = std::move(request.header),
       reply = std::move(reply)]() mutable { self->AttachOnStrand(request, std::move(reply)); });
}

void TaskService::State::AttachOnStrand(const proto::AttachRequest& request,
                                        TypedReply<proto::AttachResponse> reply) {
  const absl::StatusOr<uint64_t> before = TakeEpoch(request);
  if (!before.ok()) return reply(before.status());
  if (*before != request.epoch()) {
    // Their coordinator is fenced off, and it is told so.
    for (WatchReply& waiter : TakeWaiters()) {
      waiter(Stale(absl::StrCat("epoch ", request.epoch(), " took over from ", *before)));
    }
  }
  if (options_.on_attach) options_.on_attach(request);
  Envelope<proto::AttachResponse> answer;
  *answer.header.mutable_task() = ref_;
  answer.header.set_held_epoch(*before);
  answer.header.set_memory_bytes(options_.memory_bytes);
  reply(std::move(answer));
}

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
    if (!gone) set_orphan_timer = HeardLocked(now);
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

std::vector<WatchReply> TaskService::State::TakeWaiters() {
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

void TaskService::State::GetStatus(Envelope<proto::GetStatusRequest> request,
                                   TypedReply<proto::GetStatusResponse> reply) {
  Envelope<proto::GetStatusResponse> answer;
  *answer.header.mutable_task() = ref_;
  {
    MutexLock lock(mutex_);
    answer.header.set_state(state_);
    answer.header.set_epoch(grant_.epoch);
    answer.header.set_coordinator_incarnation(grant_.coordinator_incarnation);
    answer.header.set_job(grant_.job);
  }
  reply(std::move(answer));
}

void TaskService::State::Shutdown(Envelope<proto::ShutdownRequest> request,
                                  TypedReply<proto::ShutdownResponse> reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = !std::exchange(shut_down_, true);
  }
  reply(Envelope<proto::ShutdownResponse>());
  if (first && options_.on_shutdown) options_.on_shutdown();
}

void TaskService::State::StartDraining() {
  {
    MutexLock lock(mutex_);
    state_ = proto::DRAINING;
  }
  for (WatchReply& reply : TakeWaiters()) reply(WatchAnswer(proto::DRAINING));
}

void TaskService::State::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  for (WatchReply& reply : TakeWaiters()) {
    reply(absl::UnavailableError(absl::StrCat(TaskName(ref_), " stops")));
  }
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

TaskService::TaskService(World world, Options options)
    : state_(std::make_shared<State>(world, std::move(options))) {
  state_->StartOrphanWatch();
}

TaskService::~TaskService() { state_->Stop(); }

Service TaskService::service() {
  using proto::AttachRequest, proto::AttachResponse, proto::GetStatusRequest,
      proto::GetStatusResponse, proto::ShutdownRequest, proto::ShutdownResponse,
      proto::WatchRequest, proto::WatchResponse;
  Service service;
  service.descriptor = AttachRequest::descriptor()->file()->FindServiceByName("TaskService");
  const auto bind = [&](auto method) {
    return [state = state_, method](auto request, auto reply) {
      ((*state).*method)(std::move(request), std::move(reply));
    };
  };
  // Outermost, so that a malformed message is answered in the same form.
  const auto add = [&](const char* name, Handler typed) {
    service.handlers[name] = [state = state_, typed = std::move(typed)](Message message,
                                                                        Reply reply) {
      typed(std::move(message),
            [state, reply = std::move(reply)](absl::StatusOr<Message> answer) mutable {
              if (answer.ok()) return reply(std::move(answer));
              reply(AttributedCall(answer.status(), state->ref()));
            });
    };
  };
  add("Attach", MakeHandler<AttachRequest, AttachResponse>(bind(&State::Attach)));
  add("Watch", MakeHandler<WatchRequest, WatchResponse>(bind(&State::Watch)));
  add("GetStatus", MakeHandler<GetStatusRequest, GetStatusResponse>(bind(&State::GetStatus)));
  add("Shutdown", MakeHandler<ShutdownRequest, ShutdownResponse>(bind(&State::Shutdown)));
  return service;
}

absl::Status TaskService::CheckEpoch(uint64_t epoch) const { return state_->CheckEpoch(epoch); }

void TaskService::Stop() { state_->Stop(); }

void TaskService::StartDraining() { state_->StartDraining(); }

proto::TaskRef TaskService::task_ref() const { return state_->ref(); }

}  // namespace cohort
