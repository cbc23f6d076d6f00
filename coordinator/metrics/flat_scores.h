#pragma once

// Scores, labels and weights as three flat lists with one element per score, for metrics that count
// positives and negatives.

#include <string>

#include "coordinator/metrics/metric_table.h"

namespace cohort {

struct FlatScores {
  std::string scores;    // float32 [M]
  std::string positive;  // float64 [M]: 1 where the label is not 0
  std::string weight;    // float64 [M]
};

// Flattens the inputs of a metric. If the row has the keys `class_id` and `top_k`, they apply: only
// the scores of class `class_id` remain, and scores outside the best k count as the lowest score.
FlatScores AddFlatScores(const MetricSite& site);

// Adds, for each threshold, the weights of the elements whose score is above it. `chosen` is a
// float64 [M] that is multiplied by the weights. Returns a float64 [T].
std::string AddAbove(const FlatScores& flat, const std::string& chosen,
                     absl::Span<const double> thresholds, FormulaNodes& nodes);

// Returns 1 - x of a float64 value.
std::string OneMinus(const std::string& x, FormulaNodes& nodes);

// Returns the error of the keys `class_id` and `top_k` for this output, or "".
std::string CheckClassAndTop(const ClassConfig& config, const NodeValue& output);

// The score of elements that `top_k` leaves out. It is also a threshold that all other scores are
// above.
inline constexpr double kLowestScore = -1e10;

}  // namespace cohort
