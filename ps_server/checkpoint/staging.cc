#include "ps_server/checkpoint/staging.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "ps_server/checkpoint/held_shards.h"

namespace cohort {

namespace {

absl::Status NotStaged(uint64_t restore) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("restore ", restore, " is not staged: it has ended, a later one took its ",
                   "place, or nobody asked for it in ", absl::FormatDuration(kIdleMax)),
      proto::STALE);
}

}  // namespace

void Staging::EnterEpoch(uint64_t epoch) {
  if (epoch == epoch_) return;
  *this = Staging();
  epoch_ = epoch;
}

absl::StatusOr<StagedRestore*> Staging::FindOrRefuse(uint64_t restore) {
  if (staged_ != nullptr && restore == last_) return staged_.get();
  if (restore <= last_) return NotStaged(restore);
  return nullptr;
}

StagedRestore* Staging::Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now) {
  staged_ = nullptr;  // before room is made for the next
  staged_ = std::make_unique<StagedRestore>(std::move(plan));
  last_ = restore;
  used_ = now;
  return staged_.get();
}

absl::StatusOr<StagedRestore*> Staging::Find(uint64_t restore, absl::Time now) {
  if (staged_ == nullptr || restore != last_) return NotStaged(restore);
  used_ = now;
  return staged_.get();
}

void Staging::End(uint64_t restore, absl::StatusOr<uint32_t> tensors) {
  ended_ = restore;
  end_ = std::move(tensors);
}

std::optional<absl::StatusOr<uint32_t>> Staging::FindEnded(uint64_t restore) const {
  if (restore == 0 || restore != ended_) return std::nullopt;
  return end_;
}

absl::Time Staging::DropIdle(absl::Time now) {
  if (staged_ != nullptr && used_ + kIdleMax <= now) staged_ = nullptr;
  return staged_ == nullptr ? absl::InfiniteFuture() : used_ + kIdleMax;
}

}  // namespace cohort
