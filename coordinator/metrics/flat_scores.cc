#include "coordinator/metrics/flat_scores.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

bool HasKey(const MetricSpec& spec, absl::string_view key) {
  const std::vector<ConfigKey>& keys = RowOf(spec).keys;
  const bool known =
      std::any_of(keys.begin(), keys.end(), [&](const ConfigKey& one) { return one.name == key; });
  return known && !spec.config.IsNull(key);
}

// Returns the scores with those outside the best k of each row replaced by the lowest score. Of
// equal scores, the first ones are the best.
std::string OnlyBest(const std::string& scores, int64_t k, FormulaNodes& nodes) {
  const std::vector<std::string> best =
      nodes.graph().OpN("TopK", {scores, nodes.Ints({k})}, 2, {IntAttribute("axis", -1)});
  const std::string shape = nodes.ShapeOf(scores);
  const std::string none = nodes.Op("Expand", {nodes.Number(0), shape});
  const std::string one = nodes.Op("Expand", {nodes.Number(1), nodes.ShapeOf(best[1])});
  const std::string chosen =
      nodes.Op("ScatterElements", {none, best[1], one}, {IntAttribute("axis", -1)});
  return nodes.Where(nodes.Greater(chosen, nodes.Number(0.5)), scores, nodes.Number(kLowestScore));
}

}  // namespace

FlatScores AddFlatScores(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  std::string scores = site.y_pred();
  std::string labels = site.y_true();
  std::string weight = SpreadWeight(site.weight, site.in.y_pred, n);
  if (HasKey(site.spec, "top_k")) scores = OnlyBest(scores, site.config().Whole("top_k"), n);
  if (HasKey(site.spec, "class_id")) {
    const int64_t id = site.config().Whole("class_id");
    scores = n.Slice(scores, -1, id, id + 1);
    labels = n.Slice(labels, -1, id, id + 1);
    weight = n.Slice(weight, -1, id, id + 1);
  }
  const std::string positive = n.ToDouble(n.Cast(labels, DType::kBool));
  return {n.Flat(scores), n.Flat(positive), n.Flat(weight)};
}

std::string AddAbove(const FlatScores& flat, const std::string& chosen,
                     absl::Span<const double> thresholds, FormulaNodes& nodes) {
  const std::string bounds = nodes.Unsqueeze(nodes.Numbers(thresholds), 1);
  const std::string above = nodes.Greater(nodes.Unsqueeze(flat.scores, 0), bounds);
  const std::string counted = nodes.Unsqueeze(nodes.Mul(chosen, flat.weight), 0);
  return nodes.Sum(nodes.Mul(nodes.ToDouble(above), counted), {1});
}

std::string OneMinus(const std::string& x, FormulaNodes& nodes) {
  return nodes.Sub(nodes.Double(1), x);
}

std::string CheckClassAndTop(const ClassConfig& config, const NodeValue& output) {
  const int64_t classes = output.rank() > 0 ? output.dims.back() : 0;
  if (!config.IsNull("class_id") && config.Whole("class_id") >= classes) {
    return absl::StrCat("has class_id ", config.Whole("class_id"), ", but the model's output has ",
                        classes, " classes; give one below that");
  }
  if (!config.IsNull("top_k") && config.Whole("top_k") > classes) {
    return absl::StrCat("has top_k ", config.Whole("top_k"), ", but the model's output has ",
                        classes, " classes; give at most that");
  }
  return "";
}

}  // namespace cohort
