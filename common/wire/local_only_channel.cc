#include "common/wire/local_only_channel.h"

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

// A call that waits for the name, or was started since. Thread-safe.
class LocalOnlyChannel::AskingCall {
 public:
  struct Waiting {
    std::string method;
    Message request;
    Clock::time_point deadline;
    Reply done;
  };
  AskingCall(std::shared_ptr<LocalOnlyChannel> channel, Waiting waiting)
      : channel_(std::move(channel)), waiting_(std::move(waiting)) {}

  static void Start(const std::shared_ptr<AskingCall>& self, absl::Duration timeout) {
    auto asking = StartCall<proto::LocalNameResponse>(
        *self->channel_->asked_, kLocalNameMethod, Envelope<proto::LocalNameRequest>(), timeout,
        [self](absl::StatusOr<Envelope<proto::LocalNameResponse>> answer) {
          self->OnName(std::move(answer));
        });
    MutexLock lock(self->mutex_);
    if (self->call_ == nullptr) self->call_ = std::move(asking);
  }

  void Cancel() {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) call->Cancel();
  }

 private:
  void OnName(absl::StatusOr<Envelope<proto::LocalNameResponse>> answer) {
    Waiting waiting = std::move(waiting_);
    if (!answer.ok()) return waiting.done(answer.status());
    auto local = channel_->ConnectTo(answer->header.name());
    if (!local.ok()) return waiting.done(local.status());
    const absl::Duration left = absl::FromChrono(waiting.deadline - Clock::now());
    std::shared_ptr<Call> call = (*local)->Start(waiting.method, std::move(waiting.request), left,
                                                 std::move(waiting.done));
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      call_ = call;
      cancelled = cancelled_;
    }
    if (cancelled) call->Cancel();
  }

  const std::shared_ptr<LocalOnlyChannel> channel_;  // shared: its user may have dropped it
  Waiting waiting_;                                  // of the one answer
  Mutex mutex_;
  // Shared with a Cancel under way. What is under way now: the question, or the call.
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

std::unique_ptr<Call> LocalOnlyChannel::Start(absl::string_view method, Message request,
                                              absl::Duration timeout, Reply done) {
  class Handle final : public Call {
   public:
    explicit Handle(std::shared_ptr<AskingCall> call) : call_(std::move(call)) {}
    void Cancel() override { call_->Cancel(); }

   private:
    const std::shared_ptr<AskingCall> call_;  // shared with the transport until its end
  };

  if (const std::shared_ptr<LocalChannel> local = OpenLocal()) {
    return local->Start(method, std::move(request), timeout, std::move(done));
  }
  const auto deadline = Clock::now() + absl::ToChronoNanoseconds(BoundedWait(timeout));
  auto call = std::make_shared<AskingCall>(
      shared_from_this(), AskingCall::Waiting{std::string(method), std::move(request), deadline,
                                              std::move(done)});
  AskingCall::Start(call, timeout);
  return std::make_unique<Handle>(std::move(call));
}

std::shared_ptr<LocalChannel> LocalOnlyChannel::OpenLocal() {
  MutexLock lock(mutex_);
  if (local_ != nullptr && !local_->open()) local_.reset();
  return local_;
}

absl::StatusOr<std::shared_ptr<LocalChannel>> LocalOnlyChannel::ConnectTo(
    const std::string& name) {
  const bool shared = options_.kind == TransportKind::kShm;
  if (name.empty()) return Refused("it listens on TCP alone (--transport tcp)");
  if (shared && !absl::StartsWith(name, kSharedNamePrefix)) {
    return Refused("it shares no memory (--transport unix)");
  }
  MutexLock lock(mutex_);
  if (local_ != nullptr && local_->open()) return local_;
  auto local = std::make_shared<LocalChannel>(
      loops_,
      LocalSession::Options{name, options_.address, options_.message_bytes_max, shared});
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
