#include "common/task/task_hold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

bool SameJob(const proto::JobRef& a, const proto::JobRef& b) {
  return a.name() == b.name() && a.settings() == b.settings();
}

std::string JobName(const proto::JobRef& job) { return absl::StrCat("job '", job.name(), "'"); }

std::string AtPlace(absl::string_view place) {
  if (place.empty()) return "";
  return absl::StrCat(", ", absl::CHexEscape(place.substr(0, kPlaceBytesMax)));
}

TaskHold::TaskHold(EpochGrant granted, absl::Time now)
    : grant_(std::move(granted)), heard_at_(now) {}

bool TaskHold::IsHeldBy(const EpochGrant& wanted) const {
  return wanted.epoch == grant_.epoch &&
         wanted.coordinator_incarnation == grant_.coordinator_incarnation;
}

absl::Status TaskHold::Check(const EpochGrant& wanted, Manner manner, absl::Time now) const {
  if (IsHeldBy(wanted)) return absl::OkStatus();
  // A coordinator with a lower epoch than the held one has been replaced, and must get STALE
  // whatever its job is. So only an epoch that is not lower can get the error that the task is kept
  // for another job.
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
  // A higher epoch may be granted. A lower epoch is stale, and so is the held epoch if it comes
  // from another incarnation of a coordinator.
  if (wanted.epoch > grant_.epoch) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("Attach with epoch ", wanted.epoch, " by coordinator incarnation ",
                                wanted.coordinator_incarnation, " refused: epoch ", grant_.epoch,
                                " is held by ", Holder()),
                   proto::STALE);
}

void TaskHold::Grant(EpochGrant wanted, absl::Time now) {
  // The network may deliver a late repetition of the holder's Attach after the holder has released
  // the task. Such an Attach must not take the task back.
  if (!IsHeldBy(wanted)) released_ = false;
  grant_ = std::move(wanted);
  Hear(now);
}

void TaskHold::Hear(absl::Time now) {
  heard_at_ = now;
  ++heard_;
}

absl::Duration TaskHold::Kept(absl::Time now) const {
  // No epoch was granted, or the holder has released the task, so another job may take the task at
  // once.
  if (grant_.epoch == 0 || released_) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), heard_at_ + grant_.lease - now);
}

std::string TaskHold::Holder() const {
  return absl::StrCat("coordinator incarnation ", grant_.coordinator_incarnation, " of ",
                      JobName(grant_.job), AtPlace(grant_.place));
}

}  // namespace cohort
