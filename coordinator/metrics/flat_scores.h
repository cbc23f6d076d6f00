#pragma once

// Scores, labels and weights as three lists with one element for each score: what metrics read that
// count positives and negatives.

#include <string>

#include "coordinator/metrics/metric_table.h"

namespace cohort {

struct FlatScores {
  std::string scores;    // float32 [M]
  std::string positive;  // float64 [M]: 1 where the label is not 0
  std::string weight;    // float64 [M]
};

// Flattens what the metric reads. The keys `class_id` and `top_k` count if the row has them: only
// the scores of that class remain, and scores outside the best k count as the lowest.
FlatScores AddFlatScores(const MetricSite& site);

// Adds, for each threshold, the weights of the elements whose score is above it. `chosen` is a
// float64 [M] that is multiplied by the weights. Returns a float64 [T].
std::string AddAbove(const FlatScores& flat, const std::string& chosen,
                     absl::Span<const double> thresholds, FormulaNodes& nodes);

// Returns 1 - x of a float64 value.
std::string OneMinus(const std::string& x, FormulaNodes& nodes);

// Returns what is wrong with the keys `class_id` and `top_k` for this output, or "".
std::string CheckClassAndTop(const ClassConfig& config, const NodeValue& output);

// The score of what `top_k` leaves out, and the threshold that any other score is above.
inline constexpr double kLowestScore = -1e10;

}  // namespace cohort
