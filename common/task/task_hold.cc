#include "common/task/task_hold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

bool SameJob(const proto::JobRef& a, const proto::JobRef& b) {
  return a.name() == b.name() && a.settings() == b.settings();
}

std::string JobName(const proto::JobRef& job) { return absl::StrCat("job '", job.name(), "'"); }

TaskHold::TaskHold(EpochGrant granted, absl::Time now)
    : grant_(std::move(granted)), heard_at_(now) {}

bool TaskHold::IsHeldBy(const EpochGrant& wanted) const {
  return wanted.epoch == grant_.epoch &&
         wanted.coordinator_incarnation == grant_.coordinator_incarnation;
}

absl::Status TaskHold::Check(const EpochGrant& wanted, Manner manner, absl::Time now) const {
  if (IsHeldBy(wanted)) return absl::OkStatus();
  // A lower epoch comes from a coordinator that was taken over. That coordinator must get STALE,
  // whatever its job is, so the job's hold is not checked for lower epochs.
  const bool kept = manner == Manner::kIfFree && !SameJob(wanted.job, grant_.job) &&
                    Kept(now) > absl::ZeroDuration();
  if (kept && wanted.epoch >= grant_.epoch) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("Attach for ", JobName(wanted.job),
                     " refused: the task is kept "
                     "for ",
                     Holder(), ", which was heard from ",
                     absl::FormatDuration(absl::Trunc(now - heard_at_, absl::Milliseconds(1))),
                     " ago"),
        proto::CONFIGURATION);
  }
  // A higher epoch wins. The held epoch from another incarnation is stale, like a lower epoch.
  if (wanted.epoch > grant_.epoch) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("Attach with epoch ", wanted.epoch, " by coordinator incarnation ",
                                wanted.coordinator_incarnation, " refused: epoch ", grant_.epoch,
                                " is held by ", Holder()),
                   proto::STALE);
}

void TaskHold::Grant(EpochGrant wanted, absl::Time now) {
  // A late repetition of Attach by a holder that has released the task must not take the task back.
  if (!IsHeldBy(wanted)) released_ = false;
  grant_ = std::move(wanted);
  Hear(now);
}

void TaskHold::Hear(absl::Time now) {
  heard_at_ = now;
  ++heard_;
}

absl::Duration TaskHold::Kept(absl::Time now) const {
  // Without a granted epoch there is no holder for whom the task could be kept.
  if (grant_.epoch == 0 || released_) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), heard_at_ + grant_.lease - now);
}

std::string TaskHold::Holder() const {
  return absl::StrCat("coordinator incarnation ", grant_.coordinator_incarnation, " of ",
                      JobName(grant_.job));
}

}  // namespace cohort
