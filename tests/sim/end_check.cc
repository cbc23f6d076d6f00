#include "tests/sim/end_check.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace cohort {

void EndCheck::CheckClosures(ItemLog& log, const std::string& variable, const SliceModel& slice,
                             const std::string& where) const {
  std::set<uint64_t> known;
  for (const auto& [id, entry] : log.entries()) {
    if (!plan.Adds(entry.work, variable)) continue;
    known.insert(id);
    if (entry.state == ItemLog::State::kDone && entry.work.round == 0 && !slice.Has(id)) {
      violate(absl::StrCat(where, ": closure ", id, " is not in it"));
    }
  }
  for (const uint64_t id : slice.closures()) {
    if (known.count(id) > 0) continue;
    violate(absl::StrCat(where, ": closure ", id, " is in it and was not scheduled"));
  }
}

void EndCheck::CheckRounds(ItemLog& log, const std::string& variable, const SliceModel& slice,
                           const std::string& where) const {
  const std::map<uint64_t, ItemLog::RoundCount> rounds = log.Rounds();
  for (const auto& [number, round] : rounds) {
    // Of a round that fails the others add to both.
    const bool adds = plan.Adds({round.item, number, 1}, variable);
    if (round.done < plan.rounds->aggregate || !adds || slice.rounds().count(number) > 0) continue;
    violate(absl::StrCat(where, ": round ", number, " is not in it"));
  }
  for (const auto& [number, applied] : slice.rounds()) {
    const auto round = rounds.find(number);
    const uint32_t done = round == rounds.end() ? 0 : round->second.done;
    // What an error has ended of it is missing where the round had to be applied again.
    const bool broken = round != rounds.end() && round->second.closures > done;
    const size_t members = applied.closures.size();
    if (members != plan.rounds->aggregate && !(broken && members < plan.rounds->aggregate)) {
      violate(absl::StrCat(where, ": ", members, " closures are in round ", number, ", not ",
                           plan.rounds->aggregate));
    }
    for (const uint64_t id : applied.closures) {
      const auto entry = log.entries().find(id);
      if (entry != log.entries().end() && entry->second.work.round == number) continue;
      violate(absl::StrCat(where, ": closure ", id, " is in round ", number,
                           " and was not scheduled in it"));
    }
  }
}

void EndCheck::CheckVariable(ItemLog& log, const Variable& variable, const Tensor& value) const {
  for (const proto::SliceHome& slice : variable.layout().slices()) {
    const std::string where = absl::StrCat(variable.name(), ", slice ", slice.slice_id());
    const SliceModel* const model = ps.ModelOf(absl::StrCat("ps:", slice.ps()), slice.slice_id());
    if (model == nullptr) {
      violate(absl::StrCat(where, " is nowhere"));
      continue;
    }
    CheckClosures(log, variable.name(), *model, where);
    if (plan.rounds) CheckRounds(log, variable.name(), *model, where);
    for (int64_t row = slice.row_begin(); row < slice.row_begin() + slice.row_count(); ++row) {
      if (value.data<float>()[row] == static_cast<float>(model->value())) continue;
      violate(absl::StrCat(where, ": row ", row, " is ", value.data<float>()[row], " instead of ",
                           model->value()));
    }
  }
}

}  // namespace cohort
