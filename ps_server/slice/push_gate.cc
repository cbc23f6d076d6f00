#include "ps_server/slice/push_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status Stale(absl::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, message, proto::STALE);
}

}  // namespace

void PushGate::StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  epoch_ = epoch;
  // If the epoch belongs to the same coordinator as the last one, its closure ids continue, so the
  // watermark and the fenced workers stay valid.
  if (coordinator_incarnation == window_.coordinator_incarnation) return;
  window_ = {coordinator_incarnation, 0};
  fenced_ = AppliedSet(kFencedIntervalsMax);
}

absl::Status PushGate::CheckEpochLocked(uint64_t epoch) const {
  if (epoch == epoch_) return absl::OkStatus();
  return Stale(absl::StrCat("the call is of epoch ", epoch, ", this task serves epoch ", epoch_));
}

absl::Status PushGate::CheckSenderLocked(const PushTicket& ticket) const {
  RETURN_IF_ERROR(CheckEpochLocked(ticket.epoch));
  if (fenced_.Contains(ticket.worker_incarnation)) {
    return Stale(absl::StrCat("worker incarnation ", ticket.worker_incarnation,
                              " is fenced: the coordinator took it for lost"));
  }
  if (ticket.closure_id < window_.watermark) {
    return Stale(absl::StrCat("closure ", ticket.closure_id, " is done: the watermark is at ",
                              window_.watermark));
  }
  return absl::OkStatus();
}

absl::Status PushGate::Admit(const PushTicket& ticket) {
  if (ticket.closure_id == 0 || ticket.watermark > ticket.closure_id) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("closure ", ticket.closure_id, " with watermark ",
                                  ticket.watermark, ": closures count from 1, and one that is ",
                                  "being pushed is not below the watermark"),
                     proto::APPLICATION);
  }
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  RETURN_IF_ERROR(CheckSenderLocked(ticket));
  // Pushes may arrive in another order than the one in which they were sent, so a late push with a
  // lower watermark must not lower the gate's watermark.
  window_.watermark = std::max(window_.watermark, ticket.watermark);
  return absl::OkStatus();
}

absl::StatusOr<ClosureWindow> PushGate::Check(const PushTicket& ticket) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckSenderLocked(ticket));
  return window_;
}

absl::StatusOr<ClosureWindow> PushGate::Window(uint64_t epoch) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckEpochLocked(epoch));
  return window_;
}

absl::Status PushGate::Fence(const FenceOrder& order) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  RETURN_IF_ERROR(CheckEpochLocked(order.epoch));
  // The incarnations are added to a copy of the fenced set, so that a Fence call that exceeds the
  // limit fences none of its workers.
  AppliedSet fenced = fenced_;
  for (const uint64_t incarnation : order.worker_incarnations) {
    if (fenced.Insert(incarnation).ok()) continue;
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("more than ", kFencedIntervalsMax,
                                  " intervals of worker incarnations are fenced"),
                     proto::APPLICATION);
  }
  fenced_ = std::move(fenced);
  window_.watermark = std::max(window_.watermark, order.watermark);
  return absl::OkStatus();
}

absl::Status PushGate::RestoreWatermark(uint64_t epoch, uint64_t watermark) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  RETURN_IF_ERROR(CheckEpochLocked(epoch));
  // A restore is the only call that may lower the watermark, because closures that the restored cut
  // does not cover run again.
  window_.watermark = watermark;
  return absl::OkStatus();
}

void PushGate::CheckInvariants() const {
  fenced_.CheckInvariants();
  COHORT_CHECK(fenced_.watermark() == 0,
               "the gate lists every fenced session, and keeps no watermark of them");
  COHORT_CHECK(epoch_ > 0 || (window_.watermark == 0 && fenced_.size() == 0),
               "before its first epoch the gate knows no closure and no worker");
}

}  // namespace cohort
