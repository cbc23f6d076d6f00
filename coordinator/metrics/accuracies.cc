// Accuracies: the share of predictions that are right.

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

// Returns the scores by which classes are compared. These are the logits, if there are any: softmax
// and sigmoid keep the order of scores, so the model's last activation need not be computed.
const std::string& ScoresOf(const MetricSite& site) {
  return site.in.logits.has_value() ? site.in.logits.name : site.y_pred();
}

// Adds the share of the examples for which the bool `right` is true.
std::string AddShare(const MetricSite& site, const std::string& right, std::vector<int64_t> dims) {
  return AddMeanState({right, std::move(dims), DType::kBool}, site.weight, site.nodes);
}

std::vector<int64_t> ExampleDims(const MetricSite& site) {
  return DimsWithout(site.in.y_pred, {-1});
}

std::string AddEqual(const MetricSite& site) {
  const std::string prediction = site.nodes.ToFloat(site.y_pred());
  return AddShare(site, site.nodes.Equal(site.y_true(), prediction), site.in.y_pred.dims);
}

std::string AddBinary(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string positive =
      n.Greater(site.y_pred(), n.Number(site.config().Number("threshold")));
  return AddShare(site, n.Equal(n.ToFloat(positive), site.y_true()), site.in.y_pred.dims);
}

std::string AddCategorical(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string right =
      n.Equal(n.LargestIndex(ScoresOf(site), -1), n.LargestIndex(site.y_true(), -1));
  return AddShare(site, right, ExampleDims(site));
}

std::string AddSparse(const MetricSite& site) {
  const std::string right =
      site.nodes.Equal(site.nodes.LargestIndex(ScoresOf(site), -1), site.y_true());
  return AddShare(site, right, ExampleDims(site));
}

// Adds the share of the examples whose label is among the k best classes: fewer than k scores are
// greater than the label's.
std::string AddTopK(const MetricSite& site, const std::string& labels) {
  FormulaNodes& n = site.nodes;
  const std::string& scores = ScoresOf(site);
  const std::string own =
      n.Op("GatherElements", {scores, n.Unsqueeze(labels, -1)}, {IntAttribute("axis", -1)});
  const std::string before = n.Sum(n.ToFloat(n.Greater(scores, own)), {-1});
  const auto k = static_cast<double>(site.config().Whole("k"));
  return AddShare(site, n.Op("Less", {before, n.Number(k)}), ExampleDims(site));
}

std::string AddTopKCategorical(const MetricSite& site) {
  return AddTopK(site, site.nodes.LargestIndex(site.y_true(), -1));
}

std::string AddTopKSparse(const MetricSite& site) {
  if (!site.config().Flag("from_sorted_ids")) return AddTopK(site, site.y_true());
  // The predictions are class numbers already, sorted from the best class on.
  FormulaNodes& n = site.nodes;
  const std::string best =
      n.Slice(n.Cast(site.y_pred(), DType::kInt64), -1, 0, site.config().Whole("k"));
  const std::string found = n.ToFloat(n.Equal(best, n.Unsqueeze(site.y_true(), -1)));
  return AddShare(site, n.Greater(n.Largest(found, {-1}), n.Number(0.5)), ExampleDims(site));
}

}  // namespace

std::vector<MetricRow> AccuracyMetrics() {
  const LabelKind like = LabelKind::kLikeOutput;
  const ConfigKey k = WholeKey("k", 5, {.min = 1, .max = 1e6});
  return {
      {"Accuracy", {"accuracy"}, like, {}, AddEqual, MeanOfState},
      {"BinaryAccuracy",
       {"binary_accuracy"},
       like,
       {NumberKey("threshold", 0.5, {})},
       AddBinary,
       MeanOfState},
      {"CategoricalAccuracy", {"categorical_accuracy"}, like, {}, AddCategorical, MeanOfState},
      {"SparseCategoricalAccuracy",
       {"sparse_categorical_accuracy"},
       LabelKind::kClasses,
       {},
       AddSparse,
       MeanOfState},
      {"TopKCategoricalAccuracy",
       {"top_k_categorical_accuracy"},
       like,
       {k},
       AddTopKCategorical,
       MeanOfState},
      {"SparseTopKCategoricalAccuracy",
       {"sparse_top_k_categorical_accuracy"},
       LabelKind::kClasses,
       {k, FlagKey("from_sorted_ids", false)},
       AddTopKSparse,
       MeanOfState},
  };
}

}  // namespace cohort
