#include "coordinator/cluster/epoch_claim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/task_connection.h"

namespace cohort {

namespace {
constexpr absl::Duration kRetry = absl::Milliseconds(100);
constexpr char kGetStatus[] = "/cohort.proto.TaskService/GetStatus";
constexpr char kAttach[] = "/cohort.proto.TaskService/Attach";

absl::Status TakenOver(const absl::Status& cause) {
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "another coordinator has taken over this job: ", cause.message(),
                        "; this one ends. Run one coordinator per job")),
                    DetailOf(cause));
}
}  // namespace

std::shared_ptr<EpochClaim> EpochClaim::Create(World world, Options options, Done done) {
  return std::shared_ptr<EpochClaim>(new EpochClaim(world, std::move(options), std::move(done)));
}

EpochClaim::EpochClaim(World world, Options options, Done done)
    : world_(world),
      options_(std::move(options)),
      done_(std::move(done)),
      unanswered_(options_.ps.size() + options_.workers.size()),
      highest_(options_.floor) {}

void EpochClaim::Start() {
  for (const TaskId task : options_.ps) Probe(task);
  for (const TaskId task : options_.workers) Probe(task);
}

void EpochClaim::Cancel() {
  Done dropped;
  MutexLock lock(mutex_);
  dropped = std::exchange(done_, nullptr);
}

absl::Status EpochClaim::LastError(TaskId task) const {
  MutexLock lock(mutex_);
  const auto found = errors_.find(task);
  return found == errors_.end() ? absl::OkStatus() : found->second;
}

uint64_t EpochClaim::IncarnationOf(TaskId ps) const {
  MutexLock lock(mutex_);
  const auto found = incarnations_.find(ps);
  return found == incarnations_.end() ? 0 : found->second;
}

void EpochClaim::Later(absl::AnyInvocable<void()> retry) {
  world_.clock.CallAt(world_.clock.Now() + kRetry,
                      [self = shared_from_this(), retry = std::move(retry)]() mutable {
                        {
                          MutexLock lock(self->mutex_);
                          if (self->done_ == nullptr) return;
                        }
                        retry();
                      });
}

void EpochClaim::Probe(TaskId task) {
  std::string address = options_.address(task);
  const std::shared_ptr<Channel> channel = world_.transport.Connect(address, Lane::kControl);
  StartCall<proto::GetStatusResponse>(
      *channel, kGetStatus, Envelope<proto::GetStatusRequest>(), options_.call_timeout,
      [self = shared_from_this(), channel, task, address = std::move(address)](
          const absl::StatusOr<Envelope<proto::GetStatusResponse>>& answer) {
        const absl::Status status = answer.ok()
                                        ? CheckAnswers(task, address, answer->header.task())
                                        : answer.status();
        if (!status.ok()) return self->OnProbed(task, status);
        self->OnProbed(task, answer->header);
      });
}

bool EpochClaim::IsTakenOver(const absl::StatusOr<proto::GetStatusResponse>& answer) {
  if (options_.held == 0 || !answer.ok() || answer->epoch() <= options_.held ||
      answer->coordinator_incarnation() == options_.coordinator_incarnation) {
    return false;
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::STALE);
  *detail.mutable_origin() = answer->task();
  Finish(TakenOver(WithDetail(
      absl::FailedPreconditionError(absl::StrCat(
          "coordinator incarnation ", options_.coordinator_incarnation, " held epoch ",
          options_.held, "; epoch ", answer->epoch(), " is held by coordinator incarnation ",
          answer->coordinator_incarnation())),
      detail)));
  return true;
}

bool EpochClaim::IsHome(TaskId task) const {
  return std::find(options_.ps.begin(), options_.ps.end(), task) != options_.ps.end();
}

void EpochClaim::OnProbed(TaskId task, const absl::StatusOr<proto::GetStatusResponse>& answer) {
  if (IsTakenOver(answer)) return;
  // A draining process is about to end and grants nothing for long.
  const bool counts = answer.ok() && answer->state() == proto::SERVING;
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    errors_[task] = answer.status();
    if (counts) highest_ = std::max(highest_, answer->epoch());
    if (counts || !IsHome(task)) {
      if (--unanswered_ > 0) return;
      epoch_ = highest_ + 1;
    }
  }
  if (!counts && IsHome(task)) return Later([this, task] { Probe(task); });
  Attach(0);
}

void EpochClaim::Attach(size_t position) {
  uint64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
  }
  if (position == options_.ps.size()) return Finish(epoch);
  Envelope<proto::AttachRequest> request;
  request.header.set_epoch(epoch);
  request.header.set_coordinator_incarnation(options_.coordinator_incarnation);
  request.header.set_job(options_.job);
  const std::shared_ptr<Channel> channel =
      world_.transport.Connect(options_.address(options_.ps[position]), Lane::kControl);
  StartCall<proto::AttachResponse>(
      *channel, kAttach, std::move(request), options_.call_timeout,
      [self = shared_from_this(), channel,
       position](const absl::StatusOr<Envelope<proto::AttachResponse>>& answer) {
        if (!answer.ok()) return self->OnAttached(position, answer.status());
        self->OnAttached(position, answer->header);
      });
}

void EpochClaim::OnAttached(size_t position,
                            const absl::StatusOr<proto::AttachResponse>& answer) {
  const absl::Status& status = answer.status();
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    errors_[options_.ps[position]] = status;
    if (answer.ok()) incarnations_[options_.ps[position]] = answer->task().incarnation();
  }
  if (status.ok()) return Attach(position + 1);
  if (ClassOf(status) == proto::STALE) return Finish(TakenOver(status));
  Later([this, position] { Attach(position); });
}

void EpochClaim::Finish(absl::StatusOr<uint64_t> result) {
  Done done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
  }
  if (done != nullptr) done(std::move(result));
}

}  // namespace cohort
