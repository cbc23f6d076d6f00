#pragma once

// Statistics of one column (proto::Statistic), which a pass over the data finds. A function of the
// column is adapted to them, as Keras's layers are by `adapt`.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/preprocessing/moments.h"
#include "common/preprocessing/quantiles.h"
#include "common/preprocessing/vocabulary.h"
#include "proto/data.pb.h"

namespace cohort {

// Thread-compatible.
class ColumnStatistics {
 public:
  // The most distinct tokens of a column.
  static constexpr size_t kTokensMax = size_t{1} << 24;

  // `groups` moments are kept; 0 for a statistic of another kind, or as many as the first part has.
  explicit ColumnStatistics(size_t groups = 0) : moments_(groups) {}

  // Adds a number to the moments of `group`.
  void AddToMoments(size_t group, double value);
  void AddValue(double value);
  void AddToken(absl::string_view token) { tokens_.Add(token); }

  // Adds what the next part of the data has. Errors: INVALID_ARGUMENT if the part does not have as
  // many moments, or a count that cannot be; RESOURCE_EXHAUSTED above kTokensMax.
  absl::Status Join(const proto::ColumnStatistics& next);
  proto::ColumnStatistics ToProto() const;

  const std::vector<RunningMoments>& moments() const { return moments_; }
  const TokenCounts& tokens() const { return tokens_; }
  const ValueCounts& values() const { return values_; }
  // Returns how many numbers were NaN or infinite. They count nowhere else.
  int64_t not_finite() const { return not_finite_; }

 private:
  std::vector<RunningMoments> moments_;
  TokenCounts tokens_;
  ValueCounts values_;
  int64_t not_finite_ = 0;
};

}  // namespace cohort
