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
  // Several gangs may be under way at once, so each gang is recorded by its closure's id.
  if (closure.gang) {
    gangs_[closure.id] = number;
    return;
  }
  // Only the newest round is recorded as begun. If the closure is of an earlier round, nothing
  // changes.
  if (!begun_.empty() && number < begun_.rbegin()->first) return;
  // Closures are sent in the order of their rounds, so every earlier round has begun completely and
  // need not be recorded.
  begun_.erase(begun_.begin(), begun_.lower_bound(number));
  Begun& begun = begun_[number];
  begun.aggregate = closure.round.aggregate;
  begun.closures.insert(closure.id);
}

const uint64_t* OpenRounds::MayBeHalfApplied() const {
  // A gang that was sent may have been run by some members and not by others.
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
  // While an unobserved error has broken a round off, the round stays half applied. Waiting longer
  // would not change that.
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
  // If enough closures of the round have begun, slices may have applied the round already. Holding
  // back the round's other closures would not change that.
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
  // A slice may report the round as applied because of pushes from before a restore. Their
  // closures' answers are not counted here.
  const bool applied = closure->round_applied;
  answered_.emplace(closure->id, std::move(closure));
  const std::ptrdiff_t answers =
      std::count_if(answered_.begin(), answered_.end(),
                    [&](const auto& answered) { return answered.second->round.number == round; });
  // If fewer than `aggregate` closures are answered, slices may have kept the pushes without
  // applying them.
  if (!applied && answers < aggregate) return {};
  // The closure's round is applied now, and so is every earlier round. So all answered closures are
  // done.
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

void OpenRounds::Forget() {
  const InvariantsAfter check(*this);
  applied_ = 0;
}

OpenRounds::Closures OpenRounds::Answered() {
  // The closures are returned in ascending order of their ids, which is the order of `answered_`.
  Closures taken;
  for (auto& [id, closure] : std::exchange(answered_, {})) taken.push_back(std::move(closure));
  return taken;
}

void OpenRounds::CheckInvariants() const {
  COHORT_CHECK(begun_.size() <= 1, "at most one round is under way");
  COHORT_CHECK(held_ || ready_ == nullptr,
               "a caller waits for the round under way only while rounds are held");
  if (answered_.size() > kInvariantWalkMax) return;
  uint64_t last = applied_;
  for (const auto& [id, closure] : answered_) {
    const uint64_t round = closure->round.number;
    COHORT_CHECK(closure->id == id, "an answer stands under its closure's id");
    COHORT_CHECK(round > applied_ && round >= last,
                 "a kept answer belongs to a round later than the applied ones");
    last = round;
  }
}

}  // namespace cohort
