#include "common/task/task_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/task/task_service_state.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// A coordinator that lives hears at once that a task leaves, through its open Watch.
constexpr absl::Duration kHeardWithin = absl::Seconds(1);

EpochGrant GrantOf(const proto::AttachRequest& request) {
  const absl::Duration lease = absl::Milliseconds(request.lease_ms());
  return {request.epoch(), request.coordinator_incarnation(), request.job(),
          lease > absl::ZeroDuration() ? lease : kDefaultLease};
}

}  // namespace

proto::TaskRef TaskService::State::RefOf(const Options& options) {
  proto::TaskRef ref;
  ref.set_role(RoleName(options.task.role));
  ref.set_index(options.task.index);
  ref.set_incarnation(options.incarnation);
  return ref;
}

absl::Status TaskService::State::Stale(absl::string_view what) const {
  return WithOrigin(MakeError(absl::StatusCode::kFailedPrecondition,
                              absl::StrCat(TaskName(ref_), ": ", what), proto::STALE),
                    ref_);
}

absl::Status TaskService::State::CheckEpoch(uint64_t epoch) const {
  uint64_t held = 0;
  std::string holder;
  {
    MutexLock lock(mutex_);
    held = epoch_;
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

absl::StatusOr<uint64_t> TaskService::State::TakeEpoch(const proto::AttachRequest& request) {
  if (request.epoch() == 0) {
    return WithOrigin(
        MakeError(absl::StatusCode::kInvalidArgument,
                  "AttachRequest.epoch is 0; epochs count from 1", proto::APPLICATION),
        ref_);
  }
  const EpochGrant wanted = GrantOf(request);
  const absl::Time now = clock_.Now();
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
    hold_.Grant(wanted, now);
    lets_go_ = request.lets_go();
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

void TaskService::State::GetStatus(Envelope<proto::GetStatusRequest> request,
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
    const absl::Duration kept = absl::Ceil(hold_.Kept(now), absl::Milliseconds(1));
    answer.header.set_kept_ms(absl::ToInt64Milliseconds(kept));
    answer.header.set_heard(hold_.heard());
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
  may_leave_.Notify();
  if (first && options_.on_shutdown) options_.on_shutdown();
}

void TaskService::State::Release(Envelope<proto::ReleaseRequest> request,
                                 TypedReply<proto::ReleaseResponse> reply) {
  if (absl::Status epoch = CheckEpoch(request.header.epoch()); !epoch.ok()) return reply(epoch);
  {
    MutexLock lock(mutex_);
    if (epoch_ == request.header.epoch()) hold_.Release();
  }
  reply(Envelope<proto::ReleaseResponse>());
}

void TaskService::State::StartLeaving(absl::Duration patience) {
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    const bool waits = lets_go_ && !shut_down_ && hold_.Kept(now) > absl::ZeroDuration();
    leaves_in_ = waits ? patience : absl::ZeroDuration();
    state_ = proto::DRAINING;
  }
  WakeAll();
}

void TaskService::State::WaitToLeave(absl::Duration patience) {
  {
    MutexLock lock(mutex_);
    if (leaves_in_ <= absl::ZeroDuration()) return;
  }
  const absl::Time end = clock_.Now() + patience;
  if (heard_of_leave_.WaitFor(std::min(patience, kHeardWithin))) {
    may_leave_.WaitFor(end - clock_.Now());
  }
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

TaskService::TaskService(World world, Options options)
    : state_(std::make_shared<State>(world, std::move(options))) {
  state_->StartOrphanWatch();
}

TaskService::~TaskService() { state_->Stop(); }

Service TaskService::service() {
  using proto::AttachRequest, proto::AttachResponse, proto::GetStatusRequest,
      proto::GetStatusResponse, proto::ReleaseRequest, proto::ReleaseResponse,
      proto::ShutdownRequest, proto::ShutdownResponse, proto::WatchRequest, proto::WatchResponse;
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
  add("Release", MakeHandler<ReleaseRequest, ReleaseResponse>(bind(&State::Release)));
  return service;
}

absl::Status TaskService::CheckEpoch(uint64_t epoch) const { return state_->CheckEpoch(epoch); }

void TaskService::Stop() { state_->Stop(); }

void TaskService::StartDraining() { state_->StartLeaving(absl::ZeroDuration()); }

void TaskService::StartLeaving(absl::Duration patience) { state_->StartLeaving(patience); }

void TaskService::WaitToLeave(absl::Duration patience) { state_->WaitToLeave(patience); }

void TaskService::SetUnreached(std::vector<proto::TaskRef> peers) {
  state_->SetUnreached(std::move(peers));
}

proto::TaskRef TaskService::task_ref() const { return state_->ref(); }

}  // namespace cohort
