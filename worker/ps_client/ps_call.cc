#include "worker/ps_client/ps_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/cluster/process_limits.h"
#include "common/wire/error_detail.h"
#include "common/wire/moved_bytes.h"

namespace cohort {

PsLink::PsLink(PsRoute route, std::shared_ptr<PeerReach> reach)
    : reach_(std::move(reach)), route_(std::move(route)) {}

PsRoute PsLink::route() const {
  MutexLock lock(mutex_);
  return route_;
}

void PsLink::Reroute(PsRoute route) {
  bool moved = false;
  // The watch of the old address; destroyed outside the lock, as is the old channel.
  PeerReach::Need need;
  {
    MutexLock lock(mutex_);
    moved = route_.channel != route.channel;
    std::swap(route_, route);
    // The incident ends, because the coordinator has checked that the server is alive. A later
    // incident has a whole window again.
    incident_start_ = absl::InfiniteFuture();
    if (moved) need.swap(need_);
    moved = moved && !calls_.empty();
  }
  // If the channel is unchanged, calls under way continue undisturbed.
  if (!moved) return;
  WatchServer();
  for (const auto& call : OpenCalls()) call->Renew();
}

void PsLink::WatchServer() {
  if (reach_ == nullptr) return;
  const PsRoute where = route();
  if (where.own) return;
  PeerReach::Need need =
      reach_->Watch(where.task, where.address, [weak = weak_from_this()](PeerReach::Change change) {
        if (const auto self = weak.lock()) self->OnReach(change);
      });
  MutexLock lock(mutex_);
  // If no call is open any more, the new watch ends at once.
  if (!calls_.empty()) need.swap(need_);
}

uint64_t PsLink::Enter(std::weak_ptr<OpenPsCall> call) {
  uint64_t id = 0;
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = calls_.empty();
    id = ++last_call_;
    calls_[id] = std::move(call);
  }
  // The watch starts outside the lock, because Watch() may call OnReach() at once.
  if (first) WatchServer();
  return id;
}

void PsLink::Leave(uint64_t call) {
  PeerReach::Need need;  // the watch of the server, destroyed outside the lock
  MutexLock lock(mutex_);
  calls_.erase(call);
  if (calls_.empty()) need.swap(need_);
}

bool PsLink::IsGivenUp() const { return reach_ != nullptr && reach_->IsGivenUp(route().task); }

void PsLink::OnReach(PeerReach::Change change) {
  // Calls are not repeated when the server becomes unreached, because the server may still answer.
  if (change == PeerReach::Change::kUnreached) return;
  for (const auto& call : OpenCalls()) {
    if (change == PeerReach::Change::kGivenUp) {
      call->GiveUp();
    } else {
      call->Renew();
    }
  }
}

std::vector<std::shared_ptr<OpenPsCall>> PsLink::OpenCalls() const {
  std::vector<std::shared_ptr<OpenPsCall>> open;
  MutexLock lock(mutex_);
  for (const auto& [id, weak] : calls_) {
    if (auto call = weak.lock()) open.push_back(std::move(call));
  }
  return open;
}

void PsLink::OnAnswer() {
  proto::TaskRef task;
  {
    MutexLock lock(mutex_);
    incident_start_ = absl::InfiniteFuture();
    task = route_.task;
  }
  if (reach_ != nullptr) reach_->OnHeard(task);
}

PsLink::Incident PsLink::OnFailure(absl::Time now) {
  MutexLock lock(mutex_);
  incident_start_ = std::min(incident_start_, now);
  return {incident_start_, incident_start_ + route_.window};
}

namespace {

// One call to a parameter server, made in one or more attempts, one at a time. When an attempt
// fails on its way, the next one is made after a while. The link starts the next attempt at once if
// the present one may never be answered. Thread-safe.
class PsCall final : public OpenPsCall, public std::enable_shared_from_this<PsCall> {
 public:
  PsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link, std::string method,
         Message request, PsCaller caller, Reply done)
      : world_(world),
        policy_(policy),
        link_(std::move(link)),
        method_(std::move(method)),
        request_bytes_(request.header.size() + PayloadBytes(request.payload)),
        answer_bytes_(request.answer_bytes),
        caller_(std::move(caller)),
        request_(std::move(request)),
        route_(link_->route()),
        patience_end_(world.clock.Now() +
                      std::max(policy.call_timeout, route_.window + policy.attempt_timeout)),
        backoff_(policy.first_backoff),
        done_(std::move(done)) {}

  void Start() {
    const uint64_t id = link_->Enter(weak_from_this());
    bool ended = false;
    {
      MutexLock lock(mutex_);
      id_ = id;
      ended = done_ == nullptr;  // true if the link has ended the call before the lock was taken
    }
    if (ended) return link_->Leave(id);
    // GiveUp() is posted, because it runs `done`, which must not run inside Start().
    if (link_->IsGivenUp()) {
      return world_.executor.Run([self = shared_from_this()] { self->GiveUp(); });
    }
    Attempt();
  }

  void Renew() override {
    std::unique_ptr<Call> stale;
    {
      MutexLock lock(mutex_);
      // If no attempt is under way, the clock will start the next one.
      if (done_ == nullptr || !under_way_) return;
      under_way_ = false;
      stale = std::move(call_);
    }
    // The replaced attempt is cancelled outside the lock, because Cancel() may call OnEnd() at
    // once.
    if (stale != nullptr) stale->Cancel();
    Repeat();
  }

  void GiveUp() override {
    const absl::Status status = absl::UnavailableError("no call and no probe is answered");
    Finish(Named(status,
                 absl::StrCat(" cannot be reached since ", absl::FormatDuration(route().window))));
  }

 private:
  void Attempt() {
    PsRoute route;
    Message request;
    Limits limits;
    int attempt = 0;
    {
      MutexLock lock(mutex_);
      if (done_ == nullptr) return;
      attempt = ++attempts_;
      under_way_ = true;
      route = route_;
      // Each attempt sends a copy of the request, because a later attempt may need it again. The
      // copies share the payload's memory.
      request = request_;
      limits = LimitsLocked();
    }
    request.silence = limits.silence;
    std::unique_ptr<Call> call = route.channel->Start(
        method_, std::move(request), limits.timeout,
        [self = shared_from_this(), attempt, limits](absl::StatusOr<Message> answer) {
          self->OnEnd({attempt, limits}, std::move(answer));
        });
    // The new attempt may have ended already. `call_` holds only an attempt under way, for
    // Cancel().
    MutexLock lock(mutex_);
    if (under_way_ && attempts_ == attempt) call_.swap(call);
  }

  // The limits of an attempt's time, as in Channel::Start and Message::silence.
  struct Limits {
    absl::Time start;
    absl::Duration silence;
    absl::Duration timeout;
  };
  struct EndedAttempt {
    int number = 0;
    Limits limits;
  };

  // Returns the limits of an attempt that starts now.
  Limits LimitsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = world_.clock.Now();
    const absl::Duration silence = std::min(patience_end_ - now, policy_.attempt_timeout);
    // The caller's deadline ends an attempt even while its bytes move.
    const absl::Duration left = caller_.deadline - now;
    return {now, std::min(silence, left),
            std::min(LongestTime(silence, request_bytes_ + answer_bytes_), left)};
  }

  // Returns the time at which the call ends, after an attempt has failed. Time in which the
  // attempt's bytes moved uses up no patience, unless they moved too slowly.
  absl::Time DeadlineAfter(const Limits& limits, absl::Time now) {
    MutexLock lock(mutex_);
    const absl::Duration lasted = now - limits.start;
    if (lasted > limits.silence && lasted < limits.timeout)
      patience_end_ += lasted - limits.silence;
    return std::min(patience_end_, caller_.deadline);
  }

  void OnEnd(const EndedAttempt& ended, absl::StatusOr<Message> answer) {
    const int attempt = ended.number;
    // An error without a class was made by the transport. Such an error counts only if it ended the
    // present attempt.
    const bool silent = ClassOf(answer.status()) == proto::ERROR_CLASS_UNKNOWN;
    // A failure of an attempt that a later one has replaced is ignored.
    if (!answer.ok() && silent && !IsPresent(attempt)) return;
    // An answer of the server ends the call, even if it is the answer to an earlier attempt.
    if (answer.ok() || !CountsAsLost(answer.status())) {
      link_->OnAnswer();
      if (answer.ok()) return Finish(std::move(answer));
      return Finish(Named(answer.status(), ""));
    }
    if (IsMalformed(answer.status())) LogMalformed(answer.status());
    const absl::Time now = world_.clock.Now();
    {
      MutexLock lock(mutex_);
      if (attempt != attempts_ || !under_way_) return;
      under_way_ = false;
    }
    const absl::Time deadline = DeadlineAfter(ended.limits, now);
    // An attempt that was ended by the call's own deadline does not show that the server fails.
    if (now >= deadline && absl::IsDeadlineExceeded(answer.status())) {
      return Finish(Named(answer.status(), " did not answer before the deadline"));
    }
    const PsLink::Incident incident = link_->OnFailure(now);
    // If the wait would end after the incident's window, the last repeat starts at the end of the
    // window.
    const absl::Time when = std::min(now + backoff_, incident.give_up);
    if (now >= incident.give_up || when >= deadline) {
      const absl::Duration lasted = absl::Trunc(now - incident.start, absl::Milliseconds(1));
      return Finish(
          Named(answer.status(),
                absl::StrCat(" cannot be reached since ", absl::FormatDuration(lasted), ", after ",
                             attempt, " attempts of ", method_, " (", request_bytes_,
                             " bytes to it, about ", answer_bytes_, " back)")));
    }
    backoff_ = std::min(backoff_ * 2, policy_.backoff_max);
    world_.clock.CallAt(when, [self = shared_from_this()] { self->Repeat(); });
  }

  bool IsPresent(int attempt) const {
    MutexLock lock(mutex_);
    return attempt == attempts_ && under_way_;
  }

  void Repeat() {
    // `check` says whether the caller still wants the call.
    const absl::Status wanted = caller_.check ? caller_.check() : absl::OkStatus();
    if (!wanted.ok()) return Finish(wanted);
    // The server may have moved to another address since the last attempt.
    PsRoute now = link_->route();
    {
      MutexLock lock(mutex_);
      if (under_way_) return;  // the link has started another attempt meanwhile
      std::swap(route_, now);
    }
    Attempt();
  }

  PsRoute route() const {
    MutexLock lock(mutex_);
    return route_;
  }

  void LogMalformed(const absl::Status& status) const {
    Log(LogLevel::kWarning, "malformed_message",
        {{"task", TaskName(route().task)}, {"method", method_}, {"cause", status.message()}});
  }

  // Returns true for an error that another attempt may not meet: an answer that cannot be read, or
  // a failure of the transport. An error that a server has sent has a class and is not among these.
  static bool CountsAsLost(const absl::Status& status) {
    if (IsMalformed(status)) return true;
    return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
           (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status));
  }

  // Adds the server's name and address to the error, and the class PS_LOST or APPLICATION if the
  // error has none.
  absl::Status Named(const absl::Status& status, absl::string_view what) const {
    const PsRoute where = route();
    const absl::Status named = Annotate(
        status,
        absl::StrCat(where.task.role(), ":", where.task.index(), " at ", where.address, what));
    // The server is not at fault for what this process lacks. Who has sent the closure here names
    // this task.
    if (IsOutOfFiles(status)) return named;
    return Attributed(named, CountsAsLost(status) ? proto::PS_LOST : proto::APPLICATION,
                      where.task);
  }

  void Finish(absl::StatusOr<Message> answer) {
    Reply done;
    Message request;
    uint64_t id = 0;
    {
      MutexLock lock(mutex_);
      // Only the first end of a call counts: later, `done_` is empty.
      if (done_ == nullptr) return;
      done = std::exchange(done_, nullptr);
      std::swap(request, request_);
      under_way_ = false;
      id = id_;
    }
    link_->Leave(id);
    request = Message();  // frees the request's memory before `done` runs
    done(std::move(answer));
  }

  World world_;
  const RetryPolicy policy_;
  const std::shared_ptr<PsLink> link_;  // the server's link; shared with all calls to the server
  const std::string method_;
  const size_t request_bytes_;
  const size_t answer_bytes_;  // estimated size of the answer
  const PsCaller caller_;
  mutable Mutex mutex_;
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;  // number of this call, for PsLink::Leave()
  Message request_ ABSL_GUARDED_BY(mutex_);
  PsRoute route_ ABSL_GUARDED_BY(mutex_);  // route of the present attempt
  // When the time for all attempts together is over (RetryPolicy::call_timeout).
  absl::Time patience_end_ ABSL_GUARDED_BY(mutex_);
  absl::Duration backoff_;  // time before the next repeat
  int attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;  // true while an attempt waits for its answer
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  Reply done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void StartPsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link,
                 std::string method, Message request, PsCaller caller, Reply done) {
  std::make_shared<PsCall>(world, policy, std::move(link), std::move(method), std::move(request),
                           std::move(caller), std::move(done))
      ->Start();
}

}  // namespace cohort
