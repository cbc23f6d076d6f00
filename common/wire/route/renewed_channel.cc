#include "common/wire/route/renewed_channel.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cluster/process_limits.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {}  // namespace

// A connection of a RenewedChannel, with its calls. When the channel gives a connection up, it
// makes a new Line. Thread-safe.
struct RenewedChannel::Line {
  std::shared_ptr<Channel> channel;  // channel over this connection; constant
  OpenCalls calls;

  Mutex mutex;
  // The time of the last answer, or of the first call since that answer.
  Time heard ABSL_GUARDED_BY(mutex);
  bool waits ABSL_GUARDED_BY(mutex) = false;  // true if a call was started since the last answer
  int timeouts ABSL_GUARDED_BY(mutex) = 0;  // number of calls that timed out since the last answer
  // The reason why the connection was given up; empty while the connection is in use.
  std::string end ABSL_GUARDED_BY(mutex);
};

// A call under way. Shared by the code that has started the call and by the call's completion.
// Thread-safe.
class RenewedChannel::StartedCall {
 public:
  explicit StartedCall(absl::string_view method) : method_(method) {}
  const std::string& method() const { return method_; }
  bool cancelled() const { return cancelled_; }
  void SetCancelled() { cancelled_ = true; }

 private:
  const std::string method_;
  std::atomic<bool> cancelled_{false};  // true if the caller has cancelled the call
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
    const std::shared_ptr<Call> inner_;  // the call on the line's connection, shared with OpenCalls
  };

  std::shared_ptr<Line> line;
  {
    MutexLock lock(mutex_);
    line = line_;
  }
  {
    MutexLock lock(line->mutex);
    // The silence of a connection counts from the first call that waits for an answer.
    if (!std::exchange(line->waits, true)) line->heard = options_.now();
  }
  auto call = std::make_shared<StartedCall>(method);
  const uint64_t id = line->calls.Enter();
  std::shared_ptr<Call> inner = line->channel->Start(
      method, std::move(request), timeout,
      [self = shared_from_this(), line, id, call,
       done = std::move(done)](absl::StatusOr<Message> result) mutable {
        // The call leaves OpenCalls before its completion runs, because the completion may destroy
        // objects that the call uses.
        line->calls.Ended(id);
        std::exchange(done, nullptr)(self->Judge(line, *call, std::move(result)));
      });
  line->calls.Started(id, inner);
  return std::make_unique<Handle>(std::move(call), std::move(inner));
}

absl::Duration RenewedChannel::SinceProgress() const {
  std::shared_ptr<Line> line;
  {
    MutexLock lock(mutex_);
    line = line_;
  }
  return line->channel->SinceProgress();
}

// Decides from a call's result whether the connection still works, and returns the result for the
// caller.
absl::StatusOr<Message> RenewedChannel::Judge(const std::shared_ptr<Line>& line,
                                              const StartedCall& call,
                                              absl::StatusOr<Message> result) {
  const absl::Status& status = result.status();
  if (IsMalformed(status)) {
    Renew(line, absl::StrCat("a message of ", call.method(), " was malformed: ", status.message()));
    return Annotate(status, absl::StrCat("call of ", call.method(), " at ", options_.address));
  }
  if (!FailedOnItsWay(status)) {
    // Any answer, even an error, shows that the connection works.
    MutexLock lock(line->mutex);
    line->heard = options_.now();
    line->waits = false;
    line->timeouts = 0;
    return result;
  }
  if (absl::IsUnavailable(status)) {
    // If this process cannot open more files, the error says so. Another attempt would fail as
    // well, and the transport's own text seldom names the shortage.
    if (const absl::Status shortage = CheckOpenFilesLeft(); !shortage.ok()) {
      return Annotate(shortage, absl::StrCat("call of ", call.method(), " at ", options_.address));
    }
  }
  if (absl::IsDeadlineExceeded(status)) CountTimeout(line);
  // If the caller has not cancelled the call, the channel has: it has given the connection up.
  if (!absl::IsCancelled(status) || call.cancelled()) return result;
  MutexLock lock(line->mutex);
  return absl::UnavailableError(absl::StrCat("call of ", call.method(), " at ", options_.address,
                                             ": the connection was given up: ", line->end));
}

void RenewedChannel::CountTimeout(const std::shared_ptr<Line>& line) {
  const absl::Duration since_progress = line->channel->SinceProgress();
  std::string why;
  {
    MutexLock lock(line->mutex);
    const absl::Duration silence =
        std::min(absl::FromChrono(options_.now() - line->heard), since_progress);
    // The connection is given up only after enough time-outs and enough silence: neither one slow
    // call nor many calls in a short time prove that it is broken.
    if (++line->timeouts < kTimeoutsInARow || silence < absl::FromChrono(kSilenceMax)) return;
    why = absl::StrCat(line->timeouts, " calls in a row ran out of time, and nothing moved for ",
                       absl::FormatDuration(absl::Seconds(kSilenceMax.count())));
  }
  Renew(line, why);
}

void RenewedChannel::Renew(const std::shared_ptr<Line>& line, const std::string& why) {
  auto next = std::make_shared<Line>();
  // The new connection is opened without the lock, because opening may take time, and other calls
  // can use the old connection meanwhile.
  next->channel = options_.open();
  {
    MutexLock lock(mutex_);
    if (line_ != line) return;  // another thread has replaced the connection already
    line_ = std::move(next);
  }
  {
    MutexLock lock(line->mutex);
    line->end = why;
  }
  Log(LogLevel::kWarning, "connection_given_up", {{"address", options_.address}, {"cause", why}});
  // The calls on the old connection are cancelled last, so that their completions find the reason
  // in `end`, and new calls use the new connection.
  line->calls.CancelAll();
}

std::shared_ptr<Channel> RenewingTransport::Connect(const std::string& address, Lane lane) {
  return std::make_shared<RenewedChannel>(RenewedChannel::Options{
      address, [inner = inner_, address, lane] { return inner->Connect(address, lane); }});
}

}  // namespace cohort
