#include "tests/sim/slice_model.h"

#include <algorithm>
#include <iterator>

namespace cohort {

SliceModel::Outcome SliceModel::Take(const Push& push) {
  const uint64_t closure = push.attempt.first;
  added_.clear();
  if (push.round == 0) {
    if (!closures_.insert(closure).second) return Outcome::kRepeated;
    Add(push.amount);
    return Outcome::kAdded;
  }
  if (push.round <= last_round() || push.round < open_round_) {
    const bool first = closures_.count(closure) == 0 && late_.insert(closure).second;
    return first ? Outcome::kLate : Outcome::kRepeated;
  }
  if (push.round > open_round_) kept_.clear();
  open_round_ = push.round;
  if (!kept_.insert({closure, {push.attempt.second, push.amount}}).second) {
    return Outcome::kKeptBefore;
  }
  if (kept_.size() < push.aggregate) return Outcome::kKept;
  Round& round = rounds_[push.round];
  round.version_before = version();
  double sum = 0;
  for (const auto& [id, kept] : kept_) {
    sum += kept.amount;
    added_.emplace_back(id, kept.attempt);
    closures_.insert(id);
    round.closures.insert(id);
  }
  Add(sum / static_cast<double>(kept_.size()));
  kept_.clear();
  return Outcome::kAdded;
}

SliceModel SliceModel::WithoutKept() const {
  SliceModel model = *this;
  model.kept_.clear();
  model.open_round_ = 0;
  return model;
}

std::set<uint64_t> SliceModel::Remembered(uint64_t watermark) const {
  std::set<uint64_t> remembered;
  std::set_union(closures_.lower_bound(watermark), closures_.end(), late_.lower_bound(watermark),
                 late_.end(), std::inserter(remembered, remembered.end()));
  return remembered;
}

uint64_t SliceModel::VersionBefore(uint64_t round) const {
  const auto applied = rounds_.find(round);
  return applied == rounds_.end() ? version() : applied->second.version_before;
}

}  // namespace cohort
