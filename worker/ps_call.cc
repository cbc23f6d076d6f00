#include "worker/ps_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// Thread-compatible: one attempt at a time, each started by the end of the one before.
class PsCall : public std::enable_shared_from_this<PsCall> {
 public:
  PsCall(World world, PsPeer peer, std::string method, Message request, PsCallOptions options,
         Reply done)
      : world_(world),
        peer_(std::move(peer)),
        method_(std::move(method)),
        request_(std::move(request)),
        options_(std::move(options)),
        deadline_(world.clock.Now() + options_.policy.call_timeout),
        backoff_(options_.policy.first_backoff),
        done_(std::move(done)) {}

  void Start() {
    ++attempts_;
    const absl::Duration left = deadline_ - world_.clock.Now();
    const absl::Duration timeout = std::min(left, options_.policy.attempt_timeout);
    peer_.channel->Start(method_, request_, timeout,
                         [self = shared_from_this()](absl::StatusOr<Message> answer) {
                           self->OnAnswer(std::move(answer));
                         });
  }

 private:
  void OnAnswer(absl::StatusOr<Message> answer) {
    if (answer.ok()) {
      options_.budget->Success();
      return Finish(std::move(answer));
    }
    if (!Repeatable(answer.status())) return Finish(Named(answer.status()));
    const absl::Time when = world_.clock.Now() + backoff_;
    if (attempts_ >= options_.policy.attempts_max || when >= deadline_ ||
        !options_.budget->Take()) {
      return Finish(Named(answer.status()));
    }
    backoff_ *= 2;
    world_.clock.CallAt(when, [self = shared_from_this()] { self->Start(); });
  }

  // The transport's own failures: what a server answers carries a class.
  static bool Repeatable(const absl::Status& status) {
    return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
           (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status));
  }

  absl::Status Named(const absl::Status& status) const {
    proto::ErrorDetail detail = DetailOf(status);
    const bool lost = Repeatable(status);
    if (detail.error_class() == proto::ERROR_CLASS_UNKNOWN) {
      detail.set_error_class(lost ? proto::PS_LOST : proto::APPLICATION);
    }
    if (!detail.has_origin()) {
      detail.mutable_origin()->set_role(RoleName(Role::kPs));
      detail.mutable_origin()->set_index(static_cast<int32_t>(peer_.index));
    }
    const std::string context =
        lost ? absl::StrCat("ps:", peer_.index, " at ", peer_.address, " cannot be reached after ",
                            attempts_, " attempts of ", method_)
             : absl::StrCat("ps:", peer_.index, " at ", peer_.address);
    return WithDetail(Annotate(status, context), detail);
  }

  void Finish(absl::StatusOr<Message> answer) {
    request_ = {};
    std::exchange(done_, nullptr)(std::move(answer));
  }

  World world_;
  const PsPeer peer_;
  const std::string method_;
  Message request_;
  const PsCallOptions options_;
  const absl::Time deadline_;
  absl::Duration backoff_;
  int attempts_ = 0;
  Reply done_;
};

}  // namespace

bool RetryBudget::Take() {
  MutexLock lock(mutex_);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

void RetryBudget::Success() {
  MutexLock lock(mutex_);
  tokens_ = std::min(kTokensMax, tokens_ + kRefund);
}

void StartPsCall(World world, PsPeer peer, std::string method, Message request,
                 PsCallOptions options, Reply done) {
  std::make_shared<PsCall>(world, std::move(peer), std::move(method), std::move(request),
                           std::move(options), std::move(done))
      ->Start();
}

}  // namespace cohort
