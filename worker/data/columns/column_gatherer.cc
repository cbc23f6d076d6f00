#include "worker/data/columns/column_gatherer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

constexpr int64_t kGroupsMax = int64_t{1} << 20;
constexpr int64_t kNgramsMax = 16;

}  // namespace

absl::StatusOr<TextTokensOptions> TextTokensOptionsOf(const proto::TextVectorization& given) {
  TextTokensOptions options;
  ASSIGN_OR_RETURN(options.standardize, StandardizeFromName(given.standardize()));
  ASSIGN_OR_RETURN(options.split, SplitTextFromName(given.split()));
  if (given.ngrams() < 0 || given.ngrams() > kNgramsMax) {
    return absl::InvalidArgumentError(absl::StrCat("ngrams must be 1 to ", kNgramsMax));
  }
  options.ngrams = given.ngrams() == 0 ? 1 : given.ngrams();
  return options;
}

absl::StatusOr<size_t> ColumnGatherer::GroupsOf(const proto::Statistic& statistic,
                                                const ColumnSpec& column) {
  if (!IsNumber(column)) return WrongType(column, "numbers");
  if (statistic.groups() < 0 || statistic.groups() > kGroupsMax) {
    return absl::InvalidArgumentError(absl::StrCat("moments of ", statistic.groups(), " groups"));
  }
  // 0 stands for one group for each number of the last axis.
  const Shape& shape = column.shape;
  const int64_t groups = statistic.groups() > 0 ? statistic.groups()
                         : shape.rank() > 0     ? shape.dim(shape.rank() - 1)
                                                : 1;
  if (groups < 1 || shape.num_elements() % groups != 0) {
    return WrongType(column, absl::StrCat("numbers in groups of ", groups));
  }
  return static_cast<size_t>(groups);
}

absl::StatusOr<ColumnGatherer::Wanted> ColumnGatherer::MakeWanted(
    const proto::Statistic& statistic, const std::vector<ColumnSpec>& columns) {
  Wanted wanted;
  wanted.column = FindColumn(columns, statistic.column());
  if (wanted.column == columns.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no column '", Excerpt(statistic.column()), "' to adapt to"));
  }
  const ColumnSpec& column = columns[wanted.column];
  wanted.kind = statistic.kind();
  if (wanted.kind == proto::Statistic::MOMENTS) {
    ASSIGN_OR_RETURN(wanted.groups, GroupsOf(statistic, column));
  } else if (wanted.kind == proto::Statistic::VALUES) {
    if (!IsNumber(column)) return WrongType(column, "numbers");
  } else if (wanted.kind == proto::Statistic::TOKENS) {
    wanted.is_text = statistic.has_text();
    if (!IsString(column) && (wanted.is_text || !IsInt(column))) {
      return WrongType(column, wanted.is_text ? "texts" : "texts or integers");
    }
    ASSIGN_OR_RETURN(wanted.text, TextTokensOptionsOf(statistic.text()));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no statistic ", static_cast<int>(statistic.kind())));
  }
  return wanted;
}

absl::StatusOr<ColumnGatherer> ColumnGatherer::Make(const proto::Adapt& adapt,
                                                    const std::vector<ColumnSpec>& columns) {
  std::vector<Wanted> all;
  for (const proto::Statistic& statistic : adapt.statistics()) {
    ASSIGN_OR_RETURN(all.emplace_back(), MakeWanted(statistic, columns));
  }
  return ColumnGatherer(std::move(all));
}

std::vector<ColumnStatistics> ColumnGatherer::Begin() const {
  std::vector<ColumnStatistics> statistics;
  for (const Wanted& wanted : wanted_) statistics.emplace_back(wanted.groups);
  return statistics;
}

void ColumnGatherer::Add(const ColumnBatch& batch,
                         std::vector<ColumnStatistics>& statistics) const {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const Wanted& wanted = wanted_[i];
    const ColumnValues& values = batch.columns[wanted.column].values;
    size_t group = 0;
    switch (wanted.kind) {
      case proto::Statistic::MOMENTS:
        ForEachNumber(values, [&](double value) {
          statistics[i].AddToMoments(group, value);
          group = group + 1 == wanted.groups ? 0 : group + 1;
        });
        break;
      case proto::Statistic::VALUES:
        ForEachNumber(values, [&](double value) { statistics[i].AddValue(value); });
        break;
      default:
        AddTokens(wanted, values, statistics[i]);
    }
  }
}

void ColumnGatherer::AddTokens(const Wanted& wanted, const ColumnValues& values,
                               ColumnStatistics& statistics) {
  for (const int64_t value : values.ints) statistics.AddToken(absl::StrCat(value));
  for (const absl::string_view value : values.strings) {
    if (!wanted.is_text) {
      statistics.AddToken(value);
      continue;
    }
    for (const std::string& token : TextTokens(value, wanted.text)) statistics.AddToken(token);
  }
}

}  // namespace cohort
