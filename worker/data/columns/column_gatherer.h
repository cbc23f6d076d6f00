#pragma once

// Statistics of the columns of records (proto::Adapt), from which functions of the columns are
// adapted.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/preprocessing/column_statistics.h"
#include "common/preprocessing/text_tokens.h"
#include "proto/plan.pb.h"
#include "worker/data/columns/column.h"

namespace cohort {

// Immutable; thread-safe.
class ColumnGatherer {
 public:
  // Makes the gatherer of statistics of columns of these types. Errors: INVALID_ARGUMENT naming a
  // column that is not there, or of whose type there is no such statistic.
  static absl::StatusOr<ColumnGatherer> Make(const proto::Adapt& adapt,
                                             const std::vector<ColumnSpec>& columns);

  // Returns statistics of no record.
  std::vector<ColumnStatistics> Begin() const;
  // Adds the records of a batch, whose columns have the types for which the gatherer was made.
  void Add(const ColumnBatch& batch, std::vector<ColumnStatistics>& statistics) const;

 private:
  struct Wanted {
    size_t column = 0;
    proto::Statistic::Kind kind = proto::Statistic::MOMENTS;
    size_t groups = 0;
    bool is_text = false;  // true: texts are cut into tokens
    TextTokensOptions text;
  };

  static absl::StatusOr<Wanted> MakeWanted(const proto::Statistic& statistic,
                                           const std::vector<ColumnSpec>& columns);
  // Returns how many moments a statistic of a column has.
  static absl::StatusOr<size_t> GroupsOf(const proto::Statistic& statistic,
                                         const ColumnSpec& column);
  explicit ColumnGatherer(std::vector<Wanted> wanted) : wanted_(std::move(wanted)) {}
  static void AddTokens(const Wanted& wanted, const ColumnValues& values,
                        ColumnStatistics& statistics);

  std::vector<Wanted> wanted_;
};

// Returns how the texts of a TextVectorization are cut. Errors: INVALID_ARGUMENT naming a key.
absl::StatusOr<TextTokensOptions> TextTokensOptionsOf(const proto::TextVectorization& given);

}  // namespace cohort
