#include "common/wire/route/renewed_channel.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cluster/process_limits.h"
#include "common/wire/error_detail.h"
#include "common/wire/malformed.h"

namespace cohort {

namespace {

// Errors of the transport itself have no class.
bool IsUnanswered(const absl::Status& status) {
  return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsCancelled(status));
}

}  // namespace

// A connection with its calls; one follows another. Thread-safe.
struct RenewedChannel::Line {
  std::shared_ptr<Channel> channel;  // constant
  OpenCalls calls;

  Mutex mutex;
  Time heard ABSL_GUARDED_BY(mutex);          // the last answer, or the first call since
  bool waits ABSL_GUARDED_BY(mutex) = false;  // calls were started since the last answer
  int timeouts ABSL_GUARDED_BY(mutex) = 0;    // since the last answer
  std::string end ABSL_GUARDED_BY(mutex);     // why it was given up; empty: it was not
};

// Thread-safe. Shared by its starter and its completion.
class RenewedChannel::StartedCall {
 public:
  explicit StartedCall(absl::string_view method) : method_(method) {}
  const std::string& method() const { return method_; }
  bool cancelled() const { return cancelled_; }
  void SetCancelled() { cancelled_ = true; }

 private:
  const std::string method_;
  std::atomic<bool> cancelled_{false};  // set by the caller
};

RenewedChannel::RenewedChannel(Options options) : options_(std::move(options)) {
  MutexLock lock(mutex_);
  line_ = std::make_shared<Line>();
  line_->channel = options_.open();
}

std::unique_ptr<Call> RenewedChannel::Start(absl::string_view method, Message request,
                                            absl::Duration timeout, Reply done) {
  class Handle final : public Call {
   public:
    Handle(std::shared_ptr<StartedCall> call, std::shared_ptr<Call> inner)
        : call_(std::move(call)), inner_(std::move(inner)) {}
    void Cancel() override {
      call_->SetCancelled();
      if (inner_ != nullptr) inner_->Cancel();
    }

   private:
    const std::shared_ptr<StartedCall> call_;
    const std::shared_ptr<Call> inner_;  // shared with OpenCalls
  };

  std::shared_ptr<Line> line;
  {
    MutexLock lock(mutex_);
    line = line_;
  }
  {
    MutexLock lock(line->mutex);
    if (!std::exchange(line->waits, true)) line->heard = options_.now();
  }
  auto call = std::make_shared<StartedCall>(method);
  const uint64_t id = line->calls.Enter();
  std::shared_ptr<Call> inner = line->channel->Start(
      method, std::move(request), timeout,
      [self = shared_from_this(), line, id, call,
       done = std::move(done)](absl::StatusOr<Message> result) mutable {
        line->calls.Ended(id);
        std::exchange(done, nullptr)(self->Judge(line, *call, std::move(result)));
      });
  line->calls.Started(id, inner);
  return std::make_unique<Handle>(std::move(call), std::move(inner));
}

absl::StatusOr<Message> RenewedChannel::Judge(const std::shared_ptr<Line>& line,
                                              const StartedCall& call,
                                              absl::StatusOr<Message> result) {
  const absl::Status& status = result.status();
  if (IsMalformed(status)) {
    Renew(line, absl::StrCat("a message of ", call.method(), " was malformed: ", status.message()));
    return Annotate(status, absl::StrCat("call of ", call.method(), " at ", options_.address));
  }
  if (!IsUnanswered(status)) {
    MutexLock lock(line->mutex);
    line->heard = options_.now();
    line->waits = false;
    line->timeouts = 0;
    return result;
  }
  if (absl::IsUnavailable(status)) {
    // Another try cannot cure a shortage of descriptors, and the transport's own words seldom name
    // it.
    if (const absl::Status shortage = CheckOpenFilesLeft(); !shortage.ok()) {
      return Annotate(shortage, absl::StrCat("call of ", call.method(), " at ", options_.address));
    }
  }
  if (absl::IsDeadlineExceeded(status)) CountTimeout(line);
  if (!absl::IsCancelled(status) || call.cancelled()) return result;
  MutexLock lock(line->mutex);
  return absl::UnavailableError(absl::StrCat("call of ", call.method(), " at ", options_.address,
                                             ": the connection was given up: ", line->end));
}

void RenewedChannel::CountTimeout(const std::shared_ptr<Line>& line) {
  std::string why;
  {
    MutexLock lock(line->mutex);
    const auto silence = options_.now() - line->heard;
    if (++line->timeouts < kTimeoutsInARow || silence < kSilenceMax) return;
    why = absl::StrCat(line->timeouts, " calls in a row ran out of time, and nothing was answered ",
                       "for ", absl::FormatDuration(absl::Seconds(kSilenceMax.count())));
  }
  Renew(line, why);
}

void RenewedChannel::Renew(const std::shared_ptr<Line>& line, const std::string& why) {
  auto next = std::make_shared<Line>();
  next->channel = options_.open();
  {
    MutexLock lock(mutex_);
    if (line_ != line) return;  // another call has seen to it
    line_ = std::move(next);
  }
  {
    MutexLock lock(line->mutex);
    line->end = why;
  }
  Log(LogLevel::kWarning, "connection_given_up", {{"address", options_.address}, {"cause", why}});
  line->calls.CancelAll();
}

std::shared_ptr<Channel> RenewingTransport::Connect(const std::string& address, Lane lane) {
  return std::make_shared<RenewedChannel>(RenewedChannel::Options{
      address, [inner = inner_, address, lane] { return inner->Connect(address, lane); }});
}

}  // namespace cohort
