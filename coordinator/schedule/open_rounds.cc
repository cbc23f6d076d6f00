#include "coordinator/schedule/open_rounds.h"

#include <algorithm>
#include <utility>

namespace cohort {

bool OpenRounds::HasOlder(uint64_t round) const {
  return !answered_.empty() && answered_.begin()->second->round.number < round;
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
  for (auto& [id, closure] : std::exchange(answered_, {})) taken.push_back(std::move(closure));
  return taken;
}

}  // namespace cohort
