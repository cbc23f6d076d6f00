#include "worker/ps_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/malformed.h"

namespace cohort {

namespace {

// Thread-compatible: one attempt at a time, each started by the end of the one before.
class PsCall : public std::enable_shared_from_this<PsCall> {
 public:
  PsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link, std::string method,
         Message request, PsCaller caller, Reply done)
      : world_(world),
        policy_(policy),
        link_(std::move(link)),
        method_(std::move(method)),
        request_(std::move(request)),
        caller_(std::move(caller)),
        route_(link_->route()),
        deadline_(std::min(caller_.deadline,
                           world.clock.Now() + std::max(policy.call_timeout,
                                                        route_.window + policy.attempt_timeout))),
        backoff_(policy.first_backoff),
        done_(std::move(done)) {}

  void Start() {
    ++attempts_;
    const absl::Duration left = deadline_ - world_.clock.Now();
    const absl::Duration timeout = std::min(left, policy_.attempt_timeout);
    const std::shared_ptr<OpenCalls> calls = route_.calls;  // the next attempt may have others
    const uint64_t id = calls->Enter();
    calls->Started(id, route_.channel->Start(
                           method_, request_, timeout,
                           [self = shared_from_this(), calls, id](absl::StatusOr<Message> answer) {
                             calls->Ended(id);
                             self->OnEnd(std::move(answer));
                           }));
  }

 private:
  void OnEnd(absl::StatusOr<Message> answer) {
    // Cancelled by PsLink::Reroute: it is made again at once, where the server is now.
    if (absl::IsCancelled(answer.status()) && link_->route().channel != route_.channel) {
      return Repeat();
    }
    if (answer.ok() || !FailedOnItsWay(answer.status())) {
      link_->OnAnswer();
      if (answer.ok()) return Finish(std::move(answer));
      return Finish(Named(answer.status(), ""));
    }
    if (IsMalformed(answer.status())) LogMalformed(answer.status());
    const absl::Time now = world_.clock.Now();
    // Its own deadline cut it short, which says nothing about the server.
    if (now >= deadline_ && absl::IsDeadlineExceeded(answer.status())) {
      return Finish(Named(answer.status(), " did not answer before the deadline"));
    }
    const PsLink::Incident incident = link_->OnFailure(now);
    // The last repeat is at the end of the window, not a part of a back-off before it.
    const absl::Time when = std::min(now + backoff_, incident.give_up);
    if (now >= incident.give_up || when >= deadline_) {
      const absl::Duration lasted = absl::Trunc(now - incident.start, absl::Milliseconds(1));
      return Finish(Named(answer.status(),
                          absl::StrCat(" cannot be reached since ", absl::FormatDuration(lasted),
                                       ", after ", attempts_, " attempts of ", method_, " (",
                                       request_.header.size() + PayloadBytes(request_.payload),
                                       " bytes to it, about ", request_.answer_bytes,
                                       " back)")));
    }
    backoff_ = std::min(backoff_ * 2, policy_.backoff_max);
    world_.clock.CallAt(when, [self = shared_from_this()] { self->Repeat(); });
  }

  void Repeat() {
    const absl::Status wanted = caller_.check ? caller_.check() : absl::OkStatus();
    if (!wanted.ok()) return Finish(wanted);
    route_ = link_->route();
    Start();
  }

  void LogMalformed(const absl::Status& status) const {
    Log(LogLevel::kWarning, "malformed_message",
        {{"task", TaskName(route_.task)}, {"method", method_}, {"cause", status.message()}});
  }

  // The transport's own failures: what a server answers carries a class.
  static bool FailedOnItsWay(const absl::Status& status) {
    if (IsMalformed(status)) return true;
    return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
           (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status));
  }

  absl::Status Named(const absl::Status& status, absl::string_view what) const {
    const absl::Status named = Annotate(
        status, absl::StrCat(route_.task.role(), ":", route_.task.index(), " at ", route_.address,
                             what));
    return Attributed(named, FailedOnItsWay(status) ? proto::PS_LOST : proto::APPLICATION,
                      route_.task);
  }

  void Finish(absl::StatusOr<Message> answer) {
    request_ = {};
    std::exchange(done_, nullptr)(std::move(answer));
  }

  World world_;
  const RetryPolicy policy_;
  const std::shared_ptr<PsLink> link_;  // shared with the other calls to this server
  const std::string method_;
  Message request_;
  const PsCaller caller_;
  PsRoute route_;  // of this attempt
  const absl::Time deadline_;
  absl::Duration backoff_;
  int attempts_ = 0;
  Reply done_;
};

}  // namespace

void StartPsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link,
                 std::string method, Message request, PsCaller caller, Reply done) {
  std::make_shared<PsCall>(world, policy, std::move(link), std::move(method), std::move(request),
                           std::move(caller), std::move(done))
      ->Start();
}

}  // namespace cohort
