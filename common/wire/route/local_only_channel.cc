#include "common/wire/route/local_only_channel.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/method_table.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

constexpr char kLocalNameMethod[] = "/cohort.proto.WireService/LocalName";
using Clock = std::chrono::steady_clock;

}  // namespace

// A user's call that first asks for the name of the server's unix socket, and then runs over that
// socket. Thread-safe.
class LocalOnlyChannel::AskingCall : public std::enable_shared_from_this<AskingCall> {
 public:
  struct Waiting {
    std::string method;
    Message request;
    Clock::time_point deadline;
    Reply done;
  };
  AskingCall(std::shared_ptr<LocalOnlyChannel> channel, Waiting waiting)
      : channel_(std::move(channel)), waiting_(std::move(waiting)) {}

  void Start(absl::Duration timeout) {
    const int step = NextStep();
    Envelope<proto::LocalNameRequest> request;
    request.silence = waiting_.request.silence;
    SetCall(
        step,
        StartCall<proto::LocalNameResponse>(
            *channel_->asked_, kLocalNameMethod, std::move(request), timeout,
            [self = shared_from_this()](absl::StatusOr<Envelope<proto::LocalNameResponse>> answer) {
              self->OnName(std::move(answer));
            }));
  }

  void Cancel() {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      call = call_;
    }
    // The call of the current step is cancelled outside the lock, because its completion may start
    // the next step.
    if (call != nullptr) call->Cancel();
  }

 private:
  void OnName(absl::StatusOr<Envelope<proto::LocalNameResponse>> answer) {
    // The user's call is moved out of `waiting_`, because this object may be destroyed or started
    // again from here on.
    Waiting waiting = std::move(waiting_);
    if (!answer.ok()) return waiting.done(answer.status());
    const std::string name = answer->header.name();
    const absl::Duration left = absl::FromChrono(waiting.deadline - Clock::now());
    auto local = channel_->ConnectTo(name);
    if (!local.ok() && name != refused_) {
      // The server may have ended since it told its name, so the name is asked for once more. If
      // the server tells the same name again, it is running, but this process cannot connect to it.
      refused_ = name;
      waiting_ = std::move(waiting);
      return Start(left);
    }
    if (!local.ok()) return waiting.done(local.status());
    const int step = NextStep();
    SetCall(step, (*local)->Start(waiting.method, std::move(waiting.request), left,
                                  std::move(waiting.done)));
  }

  int NextStep() {
    MutexLock lock(mutex_);
    return ++step_;
  }

  // Stores the handle of the call that step number `step` has started. Does nothing if that call
  // has ended and the next step has begun.
  void SetCall(int step, std::shared_ptr<Call> call) {
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      if (step != step_) return;
      call_ = call;
      cancelled = cancelled_;
    }
    // The user has cancelled the call before its handle was stored.
    if (cancelled) call->Cancel();
  }

  // The channel is shared, because its user may have dropped the channel.
  const std::shared_ptr<LocalOnlyChannel> channel_;
  // The user's call, until the server's name is known.
  Waiting waiting_;
  // The last name of a unix socket with which connecting failed.
  std::string refused_;
  Mutex mutex_;
  // The handle of the current step's call: the question for the server's name, or the user's call.
  // Shared with a Cancel under way.
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  int step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

std::unique_ptr<Call> LocalOnlyChannel::Start(absl::string_view method, Message request,
                                              absl::Duration timeout, Reply done) {
  class Handle final : public Call {
   public:
    explicit Handle(std::shared_ptr<AskingCall> call) : call_(std::move(call)) {}
    void Cancel() override { call_->Cancel(); }

   private:
    // The call. Shared with the transport until the call has ended.
    const std::shared_ptr<AskingCall> call_;
  };

  if (const std::shared_ptr<LocalChannel> local = OpenLocal()) {
    return local->Start(method, std::move(request), timeout, std::move(done));
  }
  const auto deadline = Clock::now() + absl::ToChronoNanoseconds(BoundedWait(timeout));
  auto call = std::make_shared<AskingCall>(
      shared_from_this(),
      AskingCall::Waiting{std::string(method), std::move(request), deadline, std::move(done)});
  call->Start(timeout);
  return std::make_unique<Handle>(std::move(call));
}

absl::Duration LocalOnlyChannel::SinceProgress() const {
  MutexLock lock(mutex_);
  return local_ == nullptr ? absl::InfiniteDuration() : local_->SinceProgress();
}

std::shared_ptr<LocalChannel> LocalOnlyChannel::OpenLocal() {
  MutexLock lock(mutex_);
  if (local_ != nullptr && !local_->open()) local_.reset();
  return local_;
}

absl::StatusOr<std::shared_ptr<LocalChannel>> LocalOnlyChannel::ConnectTo(const std::string& name) {
  // The beginning of the name tells with which --transport the server was started.
  const bool shared = options_.kind == TransportKind::kShm;
  if (name.empty()) return Refused("it has no socket on its host (--transport tcp or grpc)");
  if (shared && !absl::StartsWith(name, kSharedNamePrefix)) {
    return Refused("it shares no memory (--transport unix)");
  }
  MutexLock lock(mutex_);
  if (local_ != nullptr && local_->open()) return local_;
  auto local = std::make_shared<LocalChannel>(
      loops_, LocalSession::Options{name, options_.address, options_.message_bytes_max, shared});
  if (!local->Connect().ok()) {
    return Refused("nobody on this host, in this network namespace and of this user has its name");
  }
  local_ = std::move(local);
  return local_;
}

absl::Status LocalOnlyChannel::Refused(absl::string_view why) const {
  return absl::FailedPreconditionError(
      absl::StrCat("--transport ", TransportKindName(options_.kind), " cannot reach ",
                   options_.address, ": ", why, "; use --transport auto or tcp"));
}

}  // namespace cohort
