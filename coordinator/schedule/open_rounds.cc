#include "coordinator/schedule/open_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

bool OpenRounds::HasOlder(uint64_t round) const {
  return !answered_.empty() && answered_.begin()->second->round.number < round;
}

void OpenRounds::Begin(const Closure& closure) {
  if (closure.round.number == 0 || closure.round.number < begun_.round.number) return;  // late
  if (closure.round.number > begun_.round.number) begun_ = {closure.round, {}};
  begun_.closures.insert(closure.id);
}

bool OpenRounds::MayBeHalfApplied() const {
  return !IsApplied(begun_.round.number) && begun_.closures.size() >= begun_.round.aggregate;
}

void OpenRounds::Hold(Ready ready) {
  held_ = true;
  ready_ = std::move(ready);
}

OpenRounds::Ready OpenRounds::TakeReady(bool broken) {
  if (MayBeHalfApplied() && !broken) return nullptr;
  return std::exchange(ready_, nullptr);
}

absl::Status OpenRounds::HoldStatus() const {
  if (!MayBeHalfApplied()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("an error has broken off round ", begun_.round.number,
                   ", which some slices may have: a checkpoint is taken when Schedule, Join or "
                   "Done has raised the error"));
}

void OpenRounds::Release() {
  held_ = false;
  ready_ = nullptr;
}

bool OpenRounds::IsHeld(uint64_t round) const {
  return held_ && !IsApplied(round) && !(round == begun_.round.number && MayBeHalfApplied());
}

OpenRounds::Closures OpenRounds::Answer(std::shared_ptr<Closure> closure) {
  const uint64_t round = closure->round.number;
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
  return TakeAnswered();
}

OpenRounds::Closures OpenRounds::TakeAnswered() {
  Closures taken;
  begun_ = {};
  for (auto& [id, closure] : std::exchange(answered_, {})) taken.push_back(std::move(closure));
  return taken;
}

}  // namespace cohort
