// F scores and the coefficient of determination: the state has sums for each class.

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

// Adds sum(w x) over the examples for each class; x is float64 [N,C].
std::string SumOfClasses(FormulaNodes& n, const std::string& x, const std::string& weight) {
  return n.Sum(n.Mul(x, weight), {0});
}

// Returns which predictions count as positive, as bools.
std::string PositiveOf(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  if (!site.config().IsNull("threshold")) {
    return n.Greater(site.y_pred(), n.Number(site.config().Number("threshold")));
  }
  // Without a threshold, the largest scores of a row are positive, unless they are 0.
  const std::string is_best =
      n.Op("GreaterOrEqual", {site.y_pred(), n.LargestKept(site.y_pred(), {-1})});
  return n.And(is_best, n.Greater(n.Abs(site.y_pred()), n.Number(1e-9)));
}

// Adds the state: true positives, false positives, false negatives and labels, each a list over the
// classes.
std::string AddFScore(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string weight = SpreadWeight(site.weight, site.in.y_pred, n);
  const std::string p = n.ToDouble(PositiveOf(site));
  const std::string y = n.ToDouble(site.y_true());
  const std::string one = n.Double(1);
  return n.Join(
      {SumOfClasses(n, n.Mul(p, y), weight), SumOfClasses(n, n.Mul(p, n.Sub(one, y)), weight),
       SumOfClasses(n, n.Mul(n.Sub(one, p), y), weight), SumOfClasses(n, y, weight)},
      0);
}

double FScore(double beta, double right, double wrong, double missed) {
  const double precision = DivideOrZero(right, right + wrong);
  const double recall = DivideOrZero(right, right + missed);
  const double square = beta * beta;
  return (1 + square) * DivideOrZero(precision * recall, square * precision + recall);
}

std::vector<double> FScoresOf(const ClassConfig& config, double beta, MetricState state) {
  const size_t classes = state.size() / 4;
  const std::string average = config.IsNull("average") ? "" : config.Text("average");
  if (average == "micro") {
    const auto sum = [&](size_t part) {
      const MetricState of_part = state.subspan(part * classes, classes);
      return std::accumulate(of_part.begin(), of_part.end(), 0.0);
    };
    return {FScore(beta, sum(0), sum(1), sum(2))};
  }
  std::vector<double> scores;
  double weighted = 0;
  double labels = 0;
  for (size_t i = 0; i < classes; ++i) {
    scores.push_back(FScore(beta, state[i], state[classes + i], state[2 * classes + i]));
    weighted += scores.back() * state[3 * classes + i];
    labels += state[3 * classes + i];
  }
  if (average == "weighted") return {DivideOrZero(weighted, labels)};
  if (average != "macro") return scores;
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  return {DivideOrZero(sum, static_cast<double>(classes))};
}

std::vector<double> FBetaOf(const ClassConfig& config, MetricState state) {
  return FScoresOf(config, config.Number("beta"), state);
}

std::vector<double> F1Of(const ClassConfig& config, MetricState state) {
  return FScoresOf(config, 1, state);
}

std::string CheckMatrix(const ClassConfig&, const NodeValue& output) {
  if (output.rank() == 2) return "";
  return absl::StrCat("needs an output [N,classes], but the model's has rank ", output.rank());
}

// Adds the state: sum(w y), sum(w y y), sum(w (y - p)^2) and sum(w), each a list over the classes,
// and then the number of labels.
std::string AddDetermination(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string weight = SpreadWeight(site.weight, site.in.y_pred, n);
  const std::string y = n.ToDouble(site.y_true());
  const std::string error = n.Sub(y, n.ToDouble(site.y_pred()));
  const std::string count = n.ToDouble(n.SizeOf(site.y_pred()));
  return n.Join(
      {SumOfClasses(n, y, weight), SumOfClasses(n, n.Square(y), weight),
       SumOfClasses(n, n.Square(error), weight), n.Sum(weight, {0}), n.Reshape(count, {1})},
      0);
}

// Returns the score corrected for the number of regressors. With as many regressors as examples,
// the score stays unchanged.
double Adjusted(double score, double regressors, double samples) {
  if (regressors == 0 || regressors >= samples - 1) return score;
  return 1 - (1 - score) * (samples - 1) / (samples - regressors - 1);
}

std::vector<double> DeterminationOf(const ClassConfig& config, MetricState state) {
  const size_t classes = (state.size() - 1) / 4;
  const double samples = state.back();
  const double regressors = config.Number("num_regressors");
  std::vector<double> scores;
  double sum = 0;
  double weighted = 0;
  double all = 0;
  for (size_t i = 0; i < classes; ++i) {
    const double mean = state[i] / state[3 * classes + i];
    const double total = state[classes + i] - state[i] * mean;
    double score = 1 - state[2 * classes + i] / total;
    if (std::isinf(score)) score = 0;
    sum += score;
    weighted += total * score;
    all += total;
    scores.push_back(Adjusted(score, regressors, samples));
  }
  if (config.IsNull("class_aggregation")) return scores;
  const double score = config.Text("class_aggregation") == "uniform_average"
                           ? sum / static_cast<double>(classes)
                           : weighted / all;
  return {Adjusted(score, regressors, samples)};
}

int64_t FScoreSize(const ClassConfig&, const NodeValue& output) { return 4 * output.dims.back(); }

int64_t DeterminationSize(const ClassConfig&, const NodeValue& output) {
  return 4 * output.dims.back() + 1;
}

}  // namespace

std::vector<MetricRow> ScoreMetrics() {
  const LabelKind like = LabelKind::kLikeOutput;
  const ConfigKey average = OptionalChoiceKey("average", {"micro", "macro", "weighted"});
  const ConfigKey threshold = OptionalNumberKey("threshold", {.min = 0, .max = 1});
  ConfigKey aggregation = ChoiceKey("class_aggregation", "uniform_average",
                                    {"uniform_average", "variance_weighted_average"});
  aggregation.nullable = true;
  std::vector<MetricRow> rows = {
      {"FBetaScore",
       {"fbeta_score", "f_beta_score"},
       like,
       {average, NumberKey("beta", 1, {.min = 0, .min_excluded = true}), threshold},
       AddFScore,
       FBetaOf},
      {"F1Score", {"f1_score"}, like, {average, threshold}, AddFScore, F1Of},
      {"R2Score",
       {"r2_score"},
       like,
       {aggregation, WholeKey("num_regressors", 0, {.min = 0, .max = 1e9})},
       AddDetermination,
       DeterminationOf}};
  for (MetricRow& row : rows) {
    row.check_output = CheckMatrix;
    row.size = FScoreSize;
  }
  rows.back().size = DeterminationSize;
  return rows;
}

}  // namespace cohort
