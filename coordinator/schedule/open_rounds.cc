#include "coordinator/schedule/open_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

bool OpenRounds::HasOlder(uint64_t round) const {
  return !answered_.empty() && answered_.begin()->second->round.number < round;
}

void OpenRounds::Begin(const Closure& closure) {
  const InvariantsAfter check(*this);
  const uint64_t number = closure.round.number;
  if (number == 0) return;
  if (closure.gang) {
    gangs_[closure.id] = number;
    return;
  }
  if (!begun_.empty() && number < begun_.rbegin()->first) return;  // late
  begun_.erase(begun_.begin(), begun_.lower_bound(number));
  Begun& begun = begun_[number];
  begun.aggregate = closure.round.aggregate;
  begun.closures.insert(closure.id);
}

const uint64_t* OpenRounds::MayBeHalfApplied() const {
  if (!gangs_.empty()) return &gangs_.begin()->second;
  for (const auto& [number, begun] : begun_) {
    if (!IsApplied(number) && begun.IsFull()) return &number;
  }
  return nullptr;
}

void OpenRounds::Hold(Ready ready) {
  const InvariantsAfter check(*this);
  held_ = true;
  ready_ = std::move(ready);
}

OpenRounds::Ready OpenRounds::TakeReady(bool broken) {
  const InvariantsAfter check(*this);
  if (MayBeHalfApplied() != nullptr && !broken) return nullptr;
  return std::exchange(ready_, nullptr);
}

absl::Status OpenRounds::HoldStatus() const {
  const uint64_t* const broken = MayBeHalfApplied();
  if (broken == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("an error has broken off round ", *broken,
                   ", which some slices may have: a checkpoint is taken when Schedule, Join or "
                   "Done has raised the error"));
}

void OpenRounds::Release() {
  const InvariantsAfter check(*this);
  held_ = false;
  ready_ = nullptr;
}

bool OpenRounds::IsHeld(const Closure& closure) const {
  const uint64_t round = closure.round.number;
  if (!held_ || IsApplied(round) || gangs_.count(closure.id) > 0) return false;
  const auto begun = begun_.find(round);
  return begun == begun_.end() || !begun->second.IsFull();
}

bool OpenRounds::IsUnderWay(const Closure& closure) const {
  const uint64_t round = closure.round.number;
  if (closure.gang) return gangs_.count(closure.id) > 0;
  return round != 0 && !IsApplied(round) && begun_.count(round) > 0;
}

OpenRounds::Closures OpenRounds::Answer(std::shared_ptr<Closure> closure) {
  const InvariantsAfter check(*this);
  const uint64_t round = closure->round.number;
  if (closure->gang) {
    gangs_.erase(closure->id);
    return {std::move(closure)};
  }
  const auto aggregate = static_cast<std::ptrdiff_t>(closure->round.aggregate);
  if (IsApplied(round)) return {std::move(closure)};
  // After a restore the slices know of rounds that are not counted here.
  const bool applied = closure->round_applied;
  answered_.emplace(closure->id, std::move(closure));
  const std::ptrdiff_t answers =
      std::count_if(answered_.begin(), answered_.end(),
                    [&](const auto& answered) { return answered.second->round.number == round; });
  if (!applied && answers < aggregate) return {};
  applied_ = round;
  begun_.clear();
  return Answered();
}

OpenRounds::Closures OpenRounds::TakeAnswered() {
  const InvariantsAfter check(*this);
  begun_.clear();
  gangs_.clear();
  return Answered();
}

OpenRounds::Closures OpenRounds::Answered() {
  Closures taken;
  for (auto& [id, closure] : std::exchange(answered_, {})) taken.push_back(std::move(closure));
  return taken;
}

void OpenRounds::CheckInvariants() const {
  COHORT_CHECK(begun_.size() <= 1, "of rounds one is under way");
  COHORT_CHECK(held_ || ready_ == nullptr, "who waits for rounds holds them");
  if (answered_.size() > kInvariantWalkMax) return;
  uint64_t last = applied_;
  for (const auto& [id, closure] : answered_) {
    const uint64_t round = closure->round.number;
    COHORT_CHECK(closure->id == id, "an answer stands under its closure's id");
    COHORT_CHECK(round > applied_ && round >= last, "answers that wait are of later rounds");
    last = round;
  }
}

}  // namespace cohort
