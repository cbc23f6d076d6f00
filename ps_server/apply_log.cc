#include "ps_server/apply_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status Stale(absl::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, message, proto::STALE);
}

}  // namespace

void ApplyLog::StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation) {
  MutexLock lock(mutex_);
  epoch_ = epoch;
  if (coordinator_incarnation == coordinator_incarnation_) return;
  coordinator_incarnation_ = coordinator_incarnation;
  watermark_ = 0;
  records_ = 0;
  closures_.clear();
  fenced_.clear();
}

absl::Status ApplyLog::CheckSenderLocked(const PushTicket& ticket) const {
  if (ticket.epoch != epoch_) {
    return Stale(
        absl::StrCat("the push is of epoch ", ticket.epoch, ", this task serves epoch ", epoch_));
  }
  if (fenced_.contains(ticket.worker_incarnation)) {
    return Stale(absl::StrCat("worker incarnation ", ticket.worker_incarnation,
                              " is fenced: the coordinator took it for lost"));
  }
  if (ticket.closure_id < watermark_) {
    return Stale(
        absl::StrCat("closure ", ticket.closure_id, " is done: the watermark is at ", watermark_));
  }
  return absl::OkStatus();
}

void ApplyLog::RaiseWatermarkLocked(uint64_t watermark) {
  if (watermark <= watermark_) return;
  watermark_ = watermark;
  while (!closures_.empty() && closures_.begin()->first < watermark_) {
    records_ -= closures_.begin()->second.size();
    closures_.erase(closures_.begin());
  }
}

absl::Status ApplyLog::Admit(const PushTicket& ticket, absl::Span<const uint32_t> slice_ids) {
  if (ticket.closure_id == 0 || ticket.watermark > ticket.closure_id) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("closure ", ticket.closure_id, " with watermark ",
                                  ticket.watermark, ": closures count from 1, and one that is ",
                                  "being pushed is not below the watermark"),
                     proto::APPLICATION);
  }
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckSenderLocked(ticket));
  RaiseWatermarkLocked(ticket.watermark);
  const auto found = closures_.find(ticket.closure_id);
  Records wanted = found == closures_.end() ? Records() : found->second;
  const size_t held = wanted.size();
  for (const uint32_t id : slice_ids) wanted.push_back({id, false});
  // A record that is held stands before a new one of the same slice, so unique keeps the held one.
  const auto before = [](const Record& a, const Record& b) { return a.slice_id < b.slice_id; };
  const auto same = [](const Record& a, const Record& b) { return a.slice_id == b.slice_id; };
  std::stable_sort(wanted.begin(), wanted.end(), before);
  wanted.erase(std::unique(wanted.begin(), wanted.end(), same), wanted.end());
  const size_t added = wanted.size() - held;
  if (added > records_max_ - records_) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the apply log holds ", records_, " of ", records_max_,
                                  " records and the push needs ", added,
                                  " more; records go when the watermark (", watermark_, ") rises"),
                     proto::TRANSIENT);
  }
  records_ += added;
  if (added > 0) closures_[ticket.closure_id] = std::move(wanted);
  return absl::OkStatus();
}

absl::StatusOr<Claim> ApplyLog::ClaimSlice(const PushTicket& ticket, uint32_t slice_id) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckSenderLocked(ticket));
  const auto closure = closures_.find(ticket.closure_id);
  if (closure != closures_.end()) {
    Records& records = closure->second;
    const auto record =
        std::lower_bound(records.begin(), records.end(), slice_id,
                         [](const Record& held, uint32_t id) { return held.slice_id < id; });
    if (record != records.end() && record->slice_id == slice_id) {
      if (record->applied) return Claim::kDuplicate;
      record->applied = true;
      return Claim::kApply;
    }
  }
  return Stale(absl::StrCat("closure ", ticket.closure_id, " has no record of slice ", slice_id));
}

absl::Status ApplyLog::Fence(absl::Span<const uint64_t> worker_incarnations, uint64_t watermark) {
  MutexLock lock(mutex_);
  std::set<uint64_t> fenced = fenced_;
  fenced.insert(worker_incarnations.begin(), worker_incarnations.end());
  if (fenced.size() > kFencedMax) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("more than ", kFencedMax, " worker incarnations are fenced"),
                     proto::APPLICATION);
  }
  fenced_ = std::move(fenced);
  RaiseWatermarkLocked(watermark);
  return absl::OkStatus();
}

size_t ApplyLog::size() const {
  MutexLock lock(mutex_);
  return records_;
}

}  // namespace cohort
