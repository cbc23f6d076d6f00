#include "common/preprocessing/quantiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace cohort {

namespace {

constexpr uint32_t kSign = uint32_t{1} << 31;

}  // namespace

uint32_t ValueCounts::KeyOf(float value) {
  const float number = value == 0 ? 0.0f : value;  // -0 is 0
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

float ValueCounts::ValueOf(uint32_t key, int dropped) {
  uint32_t bits = key << dropped;
  if (dropped > 0) bits |= uint32_t{1} << (dropped - 1);  // the middle of the numbers of the key
  bits = (bits & kSign) != 0 ? bits & ~kSign : ~bits;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void ValueCounts::AddKey(uint32_t key, int64_t count) {
  counts_[key] += count;
  while (counts_.size() > kDistinctMax && dropped_ < kDroppedMax) Drop(1);
}

void ValueCounts::Drop(int bits) {
  absl::flat_hash_map<uint32_t, int64_t> coarser;
  for (const auto& [key, count] : counts_) coarser[key >> bits] += count;
  counts_ = std::move(coarser);
  dropped_ += bits;
}

void ValueCounts::Join(const std::vector<Counted>& counted, int dropped) {
  if (dropped > dropped_) Drop(dropped - dropped_);
  for (const Counted& one : counted) AddKey(one.key >> (dropped_ - dropped), one.count);
}

std::vector<ValueCounts::Counted> ValueCounts::counts() const {
  std::vector<Counted> sorted;
  sorted.reserve(counts_.size());
  for (const auto& [key, count] : counts_) sorted.push_back({key, count});
  std::sort(sorted.begin(), sorted.end(),
            [](const Counted& a, const Counted& b) { return a.key < b.key; });
  return sorted;
}

std::vector<float> ValueCounts::Boundaries(int64_t bins) const {
  const std::vector<Counted> sorted = counts();
  std::vector<float> boundaries;
  if (sorted.empty()) return boundaries;
  int64_t total = 0;
  for (const Counted& one : sorted) total += one.count;
  size_t at = 0;
  int64_t before = 0;  // the numbers of the keys before `at`
  for (int64_t k = 1; k < bins; ++k) {
    const double position =
        static_cast<double>(total) * static_cast<double>(k) / static_cast<double>(bins);
    // The quantile lies between the numbers of these ranks, from 1 on, or is the first number.
    const auto lower_rank = std::max<int64_t>(static_cast<int64_t>(std::floor(position)), 1);
    while (before + sorted[at].count < lower_rank) before += sorted[at++].count;
    const double lower = ValueOf(sorted[at].key, dropped_);
    const double fraction = std::max(position - static_cast<double>(lower_rank), 0.0);
    const bool is_last_of_key = before + sorted[at].count == lower_rank;
    double bound = lower;
    if (fraction > 0 && is_last_of_key && at + 1 < sorted.size()) {
      bound += fraction * (ValueOf(sorted[at + 1].key, dropped_) - lower);
    }
    boundaries.push_back(static_cast<float>(bound));
  }
  return boundaries;
}

}  // namespace cohort
