// Synchronous items: each is a round of closures.

#include "common/base/status.h"
#include "tests/sim/coordinator_life.h"

namespace cohort {

absl::Status CoordinatorLife::ScheduleRound(SeedWork next) {
  for (; next.member < plan_.rounds->steps(); ++next.member) {
    RETURN_IF_ERROR(ScheduleWork(next));
  }
  return absl::OkStatus();
}

bool CoordinatorLife::IsBroken(const ItemLog::RoundCount& round) const {
  const uint32_t ended = round.closures - round.done - round.open;
  return ended > plan_.rounds->backups;
}

absl::Status CoordinatorLife::ResumeOpenRounds(const proto::CoordinatorState& left) {
  const std::map<uint64_t, ItemLog::RoundCount> rounds = log_.Rounds();
  absl::Status status;
  for (const uint64_t id : left.open()) {
    const SeedWork work = log_.entries().at(id).work;
    // What an error has ended before is done in another round, and so is all behind an error.
    if (!status.ok() || (work.round > 0 && IsBroken(rounds.at(work.round)))) {
      log_.entries().erase(id);
      continue;
    }
    SkipTo(id);
    KeepPace(plan_.resume_pace);
    status = ScheduleWork(work);
    RETURN_IF_ERROR(Expected(status));
  }
  SkipTo(left.next_id());
  if (!status.ok() || rounds.empty()) return absl::OkStatus();
  const auto& [number, last] = *rounds.rbegin();
  if (last.done >= plan_.rounds->aggregate || IsBroken(last)) return absl::OkStatus();
  return Expected(ScheduleRound({last.item, number, last.closures}));
}

}  // namespace cohort
