#include "coordinator/cluster/epoch_claim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/task/task_hold.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/task_connection.h"

namespace cohort {

namespace {
constexpr absl::Duration kRetry = absl::Milliseconds(100);
// The interval at which tasks that have answered are asked again.
constexpr absl::Duration kAskAgain = absl::Seconds(1);
constexpr char kGetStatus[] = "/cohort.proto.TaskService/GetStatus";
constexpr char kAttach[] = "/cohort.proto.TaskService/Attach";

// Returns the name of the other job that holds a task. If it has the name of this job, adds that
// its settings differ.
std::string OtherJob(const proto::GetStatusResponse& answer, const proto::JobRef& own) {
  return absl::StrCat(JobName(answer.job()), answer.job().name() == own.name()
                                                 ? ", of the same name with other settings,"
                                                 : "");
}

// Makes the error of a task that another job holds, while the coordinator of that job is silent.
absl::Status KeptFor(const proto::GetStatusResponse& answer, const proto::JobRef& own) {
  return WithOrigin(
      MakeError(
          absl::StatusCode::kFailedPrecondition,
          absl::StrCat(TaskName(answer.task()), " is kept for ", OtherJob(answer, own),
                       " (coordinator incarnation ", answer.coordinator_incarnation(),
                       AtPlace(answer.coordinator_place()), ") until that is silent for another ",
                       absl::FormatDuration(absl::Milliseconds(answer.kept_ms()))),
          proto::CONFIGURATION),
      answer.task());
}

// Makes the error of a task that another job holds and whose coordinator has called it during this
// claim.
absl::Status Lives(const proto::GetStatusResponse& answer, const proto::JobRef& own) {
  return WithOrigin(
      MakeError(absl::StatusCode::kFailedPrecondition,
                absl::StrCat(OtherJob(answer, own),
                             " runs on this cluster: its coordinator "
                             "(incarnation ",
                             answer.coordinator_incarnation(), AtPlace(answer.coordinator_place()),
                             ") holds ", TaskName(answer.task()),
                             " and was heard from just now; wait for its "
                             "end, give this job other tasks, or take these with --take_over"),
                proto::CONFIGURATION),
      answer.task());
}
}  // namespace

proto::AttachRequest MakeAttach(const CoordinatorIdentity& self, uint64_t epoch) {
  proto::AttachRequest attach;
  attach.set_epoch(epoch);
  attach.set_coordinator_incarnation(self.incarnation);
  *attach.mutable_job() = self.job;
  attach.set_take_over(self.take_over);
  attach.set_coordinator_place(self.place.substr(0, kPlaceBytesMax));
  attach.set_lease_ms(absl::ToInt64Milliseconds(self.lease));
  return attach;
}

absl::Status TakenOver(const absl::Status& cause) {
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "another coordinator has taken over this job: ", cause.message(),
                        "; this one ends. Run one coordinator per job, and one job per "
                        "cluster")),
                    DetailOf(cause));
}

std::shared_ptr<EpochClaim> EpochClaim::Create(World world, Options options, Done done) {
  return std::shared_ptr<EpochClaim>(new EpochClaim(world, std::move(options), std::move(done)));
}

EpochClaim::EpochClaim(World world, Options options, Done done)
    : world_(world),
      options_(std::move(options)),
      done_(std::move(done)),
      unanswered_(options_.ps.begin(), options_.ps.end()),
      highest_(options_.floor) {
  unanswered_.insert(options_.workers.begin(), options_.workers.end());
}

void EpochClaim::Start() {
  // All tasks are asked at once. When the last one has answered, the ps are attached.
  for (const TaskId task : options_.ps) Probe(task);
  for (const TaskId task : options_.workers) Probe(task);
}

void EpochClaim::Leave(TaskId home) {
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr || !left_.insert(home).second) return;
    unanswered_.erase(home);
    // If the home that leaves was the only task without an answer, the ps are attached now.
    if (epoch_ != 0 || !unanswered_.empty()) return;
    epoch_ = highest_ + 1;
  }
  Attach(0);
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

void EpochClaim::Later(absl::Duration wait, absl::AnyInvocable<void()> retry) {
  world_.clock.CallAt(world_.clock.Now() + wait,
                      [self = shared_from_this(), retry = std::move(retry)]() mutable {
                        {
                          MutexLock lock(self->mutex_);
                          // If the claim has ended, nothing is sent any more.
                          if (self->done_ == nullptr) return;
                        }
                        retry();
                      });
}

void EpochClaim::Probe(TaskId task) {
  std::string address = options_.address(task);
  if (const absl::Status listens = CheckListens(address); !listens.ok()) {
    return OnProbed(task, listens);
  }
  // Each attempt opens a new channel, because a restarted task may have a new address.
  const std::shared_ptr<Channel> channel = world_.transport.Connect(address, Lane::kControl);
  StartCall<proto::GetStatusResponse>(
      *channel, kGetStatus, Envelope<proto::GetStatusRequest>(), options_.call_timeout,
      [self = shared_from_this(), channel, task, address = std::move(address)](
          const absl::StatusOr<Envelope<proto::GetStatusResponse>>& answer) {
        const absl::Status status =
            answer.ok() ? CheckAnswers(task, address, answer->header.task()) : answer.status();
        if (!status.ok()) return self->OnProbed(task, status);
        self->OnProbed(task, answer->header);
      });
}

bool EpochClaim::IsTakenOver(const Answer& answer) {
  // A coordinator that has held no epoch yet cannot have been replaced. It may itself take over
  // tasks from any holder.
  if (options_.held == 0 || !answer.ok() || answer->epoch() <= options_.held ||
      answer->coordinator_incarnation() == options_.self.incarnation) {
    return false;
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::STALE);
  *detail.mutable_origin() = answer->task();
  Finish(TakenOver(
      WithDetail(absl::FailedPreconditionError(absl::StrCat(
                     "coordinator incarnation ", options_.self.incarnation, " held epoch ",
                     options_.held, "; epoch ", answer->epoch(),
                     " is held by coordinator incarnation ", answer->coordinator_incarnation(),
                     " of ", JobName(answer->job()), AtPlace(answer->coordinator_place()))),
                 detail)));
  return true;
}

bool EpochClaim::HasLeft(TaskId task) const {
  MutexLock lock(mutex_);
  return left_.count(task) > 0;
}

bool EpochClaim::IsHome(TaskId task) const {
  return std::find(options_.ps.begin(), options_.ps.end(), task) != options_.ps.end();
}

bool EpochClaim::IsKept(TaskId task, const Answer& answer) {
  // Only the first claim of a coordinator waits for tasks of another job. In later claims,
  // IsTakenOver detects that another coordinator has taken the tasks.
  if (options_.held != 0 || options_.self.take_over || !answer.ok()) return false;
  // If the task is free, or is kept for this job, this coordinator may attach it.
  if (answer->kept_ms() == 0 || SameJob(answer->job(), options_.self.job)) return false;
  bool lives = false;
  bool says = false;
  const absl::Status kept = KeptFor(*answer, options_.self.job);
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return true;
    says = kept_.empty();
    const auto [last, first] = kept_.emplace(task, *answer);
    // If the same process has heard from its coordinator since its last answer to this claim, that
    // coordinator is alive.
    lives = !first && last->second.task().incarnation() == answer->task().incarnation() &&
            last->second.heard() != answer->heard();
    last->second = *answer;
    errors_[task] = kept;
    unanswered_.insert(task);
  }
  // The reason for waiting is logged once, because the wait may take as long as a lease.
  if (says) Log(LogLevel::kInfo, "waiting_for_tasks", {{"cause", kept.message()}});
  if (lives) Finish(Lives(*answer, options_.self.job));
  return true;
}

bool EpochClaim::CountLocked(TaskId task, const Answer& answer) {
  // A process that is draining will end soon. It counts as not serving, so that it does not grant
  // the epoch.
  const bool serves = answer.ok() && answer->state() == proto::SERVING;
  errors_[task] =
      serves || !answer.ok() ? answer.status() : absl::UnavailableError("it is shutting down");
  // The new epoch must be higher than the epochs of all tasks that answer.
  if (serves) highest_ = std::max(highest_, answer->epoch());
  // The claim waits for homes until they serve. For other workers, the failure of the first call is
  // enough.
  if (serves || !IsHome(task)) unanswered_.erase(task);
  if (epoch_ != 0 || !unanswered_.empty()) return false;
  epoch_ = highest_ + 1;
  return true;
}

void EpochClaim::OnProbed(TaskId task, const Answer& answer) {
  // If another coordinator has taken over, IsTakenOver has ended the claim.
  if (HasLeft(task) || IsTakenOver(answer)) return;
  bool attach = false;
  if (!IsKept(task, answer)) {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    attach = CountLocked(task, answer);
  }
  // Tasks are asked again as long as the claim lasts, so that LastError tells the present state.
  Later(LastError(task).ok() ? kAskAgain : kRetry, [this, task] { Probe(task); });
  if (attach) Attach(0);
}

void EpochClaim::Attach(size_t position) {
  uint64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
    // Homes that were taken out of the claim (Leave) are skipped.
    while (position < options_.ps.size() && left_.count(options_.ps[position]) > 0) ++position;
  }
  // If no home is left, all homes have granted the epoch.
  if (position == options_.ps.size()) return Finish(epoch);
  const std::string address = options_.address(options_.ps[position]);
  if (const absl::Status listens = CheckListens(address); !listens.ok()) {
    return OnAttached(position, listens);
  }
  const std::shared_ptr<Channel> channel = world_.transport.Connect(address, Lane::kControl);
  StartCall<proto::AttachResponse>(
      *channel, kAttach, Envelope<proto::AttachRequest>{MakeAttach(options_.self, epoch), {}},
      options_.call_timeout,
      [self = shared_from_this(), channel,
       position](const absl::StatusOr<Envelope<proto::AttachResponse>>& answer) {
        if (!answer.ok()) return self->OnAttached(position, answer.status());
        self->OnAttached(position, answer->header);
      });
}

void EpochClaim::OnAttached(size_t position, const absl::StatusOr<proto::AttachResponse>& answer) {
  const absl::Status& status = answer.status();
  const TaskId task = options_.ps[position];
  if (HasLeft(task)) return Attach(position + 1);
  // If another job has attached the home since it was asked, this claim begins to ask again, until
  // the home is free or that job is known to be alive.
  const bool kept = ClassOf(status) == proto::CONFIGURATION && options_.held == 0;
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    errors_[task] = status;
    if (answer.ok()) incarnations_[task] = answer->task().incarnation();
    if (kept) {
      epoch_ = 0;
      unanswered_.insert(task);
    }
  }
  if (status.ok()) return Attach(position + 1);
  if (kept) return;
  // Another coordinator holds the home, under a higher epoch or for another job.
  if (ClassOf(status) == proto::STALE || ClassOf(status) == proto::CONFIGURATION) {
    return Finish(TakenOver(status));
  }
  // After any other error the call is repeated, because a lost home may come back.
  Later(kRetry, [this, position] { Attach(position); });
}

void EpochClaim::Finish(absl::StatusOr<uint64_t> result) {
  Done done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
  }
  // `done` runs once, and without the lock, because it may start the next claim.
  if (done != nullptr) done(std::move(result));
}

}  // namespace cohort
