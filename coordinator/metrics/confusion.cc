// Counts of true and false positives and negatives at thresholds, and precision and recall. A score
// counts as positive if it is above the threshold.

#include "coordinator/metrics/flat_scores.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

// Returns the thresholds of a config. Without the key, the threshold is 1/2 or, with top_k, one
// that the k best scores are above.
std::vector<double> ThresholdsOf(const MetricSite& site, bool has_top_k) {
  std::vector<double> thresholds = site.config().Numbers("thresholds");
  if (!thresholds.empty()) return thresholds;
  return {has_top_k && !site.config().IsNull("top_k") ? kLowestScore : 0.5};
}

// Adds counts at the thresholds when they are first asked for.
class Counts {
 public:
  Counts(const MetricSite& site, bool has_top_k)
      : nodes_(site.nodes),
        thresholds_(ThresholdsOf(site, has_top_k)),
        flat_(AddFlatScores(site)),
        negative_(OneMinus(flat_.positive, nodes_)) {}

  std::string TruePositives() { return Above(flat_.positive); }
  std::string FalsePositives() { return Above(negative_); }
  std::string FalseNegatives() { return NotAbove(flat_.positive); }
  std::string TrueNegatives() { return NotAbove(negative_); }

 private:
  std::string Above(const std::string& chosen) {
    return AddAbove(flat_, chosen, thresholds_, nodes_);
  }
  // Returns the weights of the elements that are not above each threshold, as a difference of two
  // sums. With weights that are not whole numbers, rounding may make the difference negative.
  std::string NotAbove(const std::string& chosen) {
    const std::string all = nodes_.SumAll(nodes_.Mul(chosen, flat_.weight));
    const std::string rest = nodes_.Sub(all, Above(chosen));
    return nodes_.Op("Max", {rest, nodes_.Double(0)});
  }

  FormulaNodes& nodes_;
  const std::vector<double> thresholds_;
  const FlatScores flat_;
  const std::string negative_;
};

std::string AddTruePositives(const MetricSite& site) { return Counts(site, false).TruePositives(); }
std::string AddFalsePositives(const MetricSite& site) {
  return Counts(site, false).FalsePositives();
}
std::string AddTrueNegatives(const MetricSite& site) { return Counts(site, false).TrueNegatives(); }
std::string AddFalseNegatives(const MetricSite& site) {
  return Counts(site, false).FalseNegatives();
}

std::string AddPrecision(const MetricSite& site) {
  Counts counts(site, true);
  const std::string right = counts.TruePositives();
  return site.nodes.Join({right, counts.FalsePositives()}, 0);
}

std::string AddRecall(const MetricSite& site) {
  Counts counts(site, true);
  const std::string right = counts.TruePositives();
  return site.nodes.Join({right, counts.FalseNegatives()}, 0);
}

std::vector<double> CountsOf(const ClassConfig&, MetricState state) {
  return {state.begin(), state.end()};
}

// Returns the share of the first half of the state in both halves, for each threshold.
std::vector<double> Shares(const ClassConfig&, MetricState state) {
  const size_t count = state.size() / 2;
  std::vector<double> shares;
  for (size_t i = 0; i < count; ++i) {
    shares.push_back(DivideOrZero(state[i], state[i] + state[count + i]));
  }
  return shares;
}

int64_t NumThresholds(const ClassConfig& config, const NodeValue&) {
  const size_t count = config.Numbers("thresholds").size();
  return count == 0 ? 1 : static_cast<int64_t>(count);
}

int64_t TwoForEach(const ClassConfig& config, const NodeValue& output) {
  return 2 * NumThresholds(config, output);
}

}  // namespace

std::vector<MetricRow> ConfusionMetrics() {
  const LabelKind like = LabelKind::kLikeOutput;
  const ConfigKey thresholds = OptionalNumbersKey("thresholds", {.min = 0, .max = 1});
  const ConfigKey class_id = OptionalWholeKey("class_id", {.min = 0, .max = 1e6});
  const ConfigKey top_k = OptionalWholeKey("top_k", {.min = 1, .max = 1e6});
  std::vector<MetricRow> rows = {
      {"TruePositives", {"true_positives"}, like, {thresholds}, AddTruePositives, CountsOf},
      {"FalsePositives", {"false_positives"}, like, {thresholds}, AddFalsePositives, CountsOf},
      {"TrueNegatives", {"true_negatives"}, like, {thresholds}, AddTrueNegatives, CountsOf},
      {"FalseNegatives", {"false_negatives"}, like, {thresholds}, AddFalseNegatives, CountsOf},
      {"Precision", {"precision"}, like, {thresholds, top_k, class_id}, AddPrecision, Shares},
      {"Recall", {"recall"}, like, {thresholds, top_k, class_id}, AddRecall, Shares}};
  for (MetricRow& row : rows) row.size = NumThresholds;
  rows[4].size = rows[5].size = TwoForEach;
  rows[4].check_output = rows[5].check_output = CheckClassAndTop;
  return rows;
}

}  // namespace cohort
