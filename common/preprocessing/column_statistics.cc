#include "common/preprocessing/column_statistics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace cohort {

void ColumnStatistics::AddToMoments(size_t group, double value) {
  if (std::isfinite(value)) {
    moments_[group].Add(value);
  } else {
    ++not_finite_;
  }
}

void ColumnStatistics::AddValue(double value) {
  const auto number = static_cast<float>(value);
  if (std::isfinite(number)) {
    values_.Add(number);
  } else {
    ++not_finite_;
  }
}

namespace {

// Returns whether the counts, which come from a peer, can be counts of some numbers.
template <typename Counts>
bool AreCounts(const Counts& counts) {
  constexpr int64_t kCountMax = int64_t{1} << 40;
  return std::all_of(counts.begin(), counts.end(),
                     [](int64_t count) { return count >= 0 && count <= kCountMax; });
}

// Returns whether no count is negative or too large, and no mean or sum of squares is not finite.
bool HasPossibleCounts(const proto::ColumnStatistics& statistics) {
  std::vector<int64_t> counts = {statistics.not_finite()};
  for (const proto::Moments& one : statistics.moments()) {
    if (!std::isfinite(one.mean()) || !std::isfinite(one.squares())) return false;
    counts.push_back(one.count());
  }
  return AreCounts(counts) && AreCounts(statistics.token_counts()) &&
         AreCounts(statistics.value_counts());
}

}  // namespace

absl::Status ColumnStatistics::Join(const proto::ColumnStatistics& next) {
  // Sums that began with nothing have as many moments as the first part.
  if (moments_.empty()) moments_.resize(static_cast<size_t>(next.moments_size()));
  const auto dropped = static_cast<int>(next.dropped_bits());
  if (static_cast<size_t>(next.moments_size()) != moments_.size() ||
      next.tokens_size() != next.token_counts_size() ||
      next.values_size() != next.value_counts_size() ||
      next.dropped_bits() > ValueCounts::kDroppedMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a part of the data has statistics of another form: ", next.moments_size(),
                     " moments, ", next.tokens_size(), " tokens with ", next.token_counts_size(),
                     " counts, ", next.values_size(), " values with ", next.value_counts_size(),
                     " counts, and ", next.dropped_bits(), " dropped bits"));
  }
  if (!HasPossibleCounts(next)) {
    return absl::InvalidArgumentError("a part of the data has a count or a moment that cannot be");
  }
  for (int i = 0; i < next.moments_size(); ++i) {
    const proto::Moments& one = next.moments(i);
    moments_[static_cast<size_t>(i)].Join({one.count(), one.mean(), one.squares()});
  }
  for (int i = 0; i < next.tokens_size(); ++i) tokens_.Add(next.tokens(i), next.token_counts(i));
  if (tokens_.size() > kTokensMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are more than ", kTokensMax,
                     " distinct tokens; take Hashing, which needs no vocabulary"));
  }
  std::vector<ValueCounts::Counted> counted;
  for (int i = 0; i < next.values_size(); ++i) {
    counted.push_back({next.values(i), next.value_counts(i)});
  }
  values_.Join(counted, dropped);
  not_finite_ += next.not_finite();
  return absl::OkStatus();
}

proto::ColumnStatistics ColumnStatistics::ToProto() const {
  proto::ColumnStatistics result;
  for (const RunningMoments& one : moments_) {
    proto::Moments& moments = *result.add_moments();
    moments.set_count(one.count);
    moments.set_mean(one.mean);
    moments.set_squares(one.squares);
  }
  for (const auto& [token, count] : tokens_.counts()) {
    result.add_tokens(token.data(), token.size());
    result.add_token_counts(count);
  }
  for (const ValueCounts::Counted& one : values_.counts()) {
    result.add_values(one.key);
    result.add_value_counts(one.count);
  }
  result.set_dropped_bits(static_cast<uint32_t>(values_.dropped()));
  result.set_not_finite(not_finite_);
  return result;
}

}  // namespace cohort
