// Metrics over a curve of thresholds: AUC, and the best value of one rate where another rate is at
// least a given value. With evenly spaced thresholds, a score needs one addition: the state has the
// weights of positives and negatives per bucket between two thresholds, and the value adds up the
// buckets.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/flat_scores.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-7;

// The thresholds of a metric, ascending.
struct Thresholds {
  std::vector<double> values;
  bool is_even = false;      // true: the thresholds cut [0, 1] into equal buckets
  bool has_margins = false;  // true: the first threshold lies below 0 and the last above 1
};

// Returns whether the thresholds are i / (n - 1), but for rounding.
bool AreEven(const std::vector<double>& thresholds) {
  if (thresholds.size() < 3) return false;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(thresholds.size() - 1);
    // The tolerance of NumPy's allclose with Keras's epsilon.
    if (std::abs(thresholds[i] - even) > kEpsilon + 1e-5 * even) return false;
  }
  return true;
}

std::vector<double> Between(int64_t count) {
  std::vector<double> values = {0};
  for (int64_t i = 1; i + 1 < count; ++i) {
    values.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
  }
  values.push_back(1);
  return values;
}

Thresholds ThresholdsOfAuc(const ClassConfig& config) {
  Thresholds thresholds;
  std::vector<double> given = config.Numbers("thresholds");
  if (given.empty()) {
    thresholds.values = Between(config.Whole("num_thresholds"));
    thresholds.is_even = true;
  } else {
    std::sort(given.begin(), given.end());
    thresholds.values = {0};
    thresholds.values.insert(thresholds.values.end(), given.begin(), given.end());
    thresholds.values.push_back(1);
    thresholds.is_even = AreEven(thresholds.values);
  }
  thresholds.has_margins = true;
  thresholds.values.front() -= kEpsilon;
  thresholds.values.back() += kEpsilon;
  return thresholds;
}

Thresholds ThresholdsOfRates(const ClassConfig& config) {
  const int64_t count = config.Whole("num_thresholds");
  if (count == 1) return {{0.5}, false, false};
  return {Between(count), true, false};
}

// Adds the weights of `chosen` by bucket. An element's bucket is the number of the threshold that
// it is just above, counted from 1; 0: it is above none. `labels` is the number of labels, whose
// elements follow each other in the lists: each label has buckets of its own.
std::string AddBuckets(const FlatScores& flat, const std::string& chosen, int64_t count,
                       int64_t labels, FormulaNodes& nodes) {
  // A NaN is above no threshold. The product is computed in float32, as in Keras.
  const std::string zero = nodes.Number(0);
  const std::string known = nodes.Where(nodes.Op("IsNaN", {flat.scores}), zero, flat.scores);
  const std::string scaled = nodes.Mul(nodes.Clip(known, 0, 1), static_cast<double>(count - 1));
  std::string bucket = nodes.Cast(nodes.Op("Ceil", {scaled}), DType::kInt64);
  if (labels > 1) {
    std::vector<int64_t> first(static_cast<size_t>(labels));
    for (int64_t i = 0; i < labels; ++i) first[static_cast<size_t>(i)] = i * count;
    bucket = nodes.Flat(nodes.Add(nodes.Reshape(bucket, {-1, labels}), nodes.Ints(first)));
  }
  const Tensor none = Tensor::Zeros(DType::kFloat64, Shape({labels * count}));
  return nodes.Op("ScatterElements", {nodes.Constant(none), bucket, nodes.Mul(chosen, flat.weight)},
                  {IntAttribute("axis", 0), StringAttribute("reduction", "add")});
}

// Adds, for each label, the weights of `chosen` above each threshold, and behind them the weights
// of all. With several labels, each has a list of its own.
std::string AddAboveAndAll(const FlatScores& flat, const std::string& chosen,
                           const std::vector<double>& thresholds, int64_t labels,
                           FormulaNodes& nodes) {
  if (labels == 1) {
    const std::string all = nodes.SumAll(nodes.Mul(chosen, flat.weight));
    return nodes.Join({AddAbove(flat, chosen, thresholds, nodes), nodes.Reshape(all, {1})}, 0);
  }
  std::vector<std::string> lists;
  for (int64_t label = 0; label < labels; ++label) {
    const auto of_label = [&](const std::string& x) {
      return nodes.Flat(nodes.Slice(nodes.Reshape(x, {-1, labels}), 1, label, label + 1));
    };
    const FlatScores own = {of_label(flat.scores), "", of_label(flat.weight)};
    lists.push_back(AddAboveAndAll(own, of_label(chosen), thresholds, 1, nodes));
  }
  return nodes.Join(lists, 0);
}

std::string AddCurve(const FlatScores& flat, const Thresholds& thresholds, int64_t labels,
                     FormulaNodes& nodes) {
  const std::string negative = OneMinus(flat.positive, nodes);
  const auto count = static_cast<int64_t>(thresholds.values.size());
  const auto part = [&](const std::string& chosen) {
    return thresholds.is_even ? AddBuckets(flat, chosen, count, labels, nodes)
                              : AddAboveAndAll(flat, chosen, thresholds.values, labels, nodes);
  };
  const std::string positives = part(flat.positive);
  return nodes.Join({positives, part(negative)}, 0);
}

// The counts at each threshold, for one label.
struct Curve {
  std::vector<double> above;  // weights above each threshold
  double all = 0;
};

// Returns the counts of one label from its part of the state.
Curve CurveOf(MetricState part, const Thresholds& thresholds) {
  const size_t count = thresholds.values.size();
  Curve curve;
  curve.above.assign(count, 0);
  if (!thresholds.is_even) {
    std::copy(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count), curve.above.begin());
    curve.all = part[count];
    return curve;
  }
  curve.all = std::accumulate(part.begin(), part.end(), 0.0);
  double sum = 0;
  // Bucket i + 1 is above threshold i. With margins, a score of 0 is above the first threshold.
  for (size_t i = count; i-- > 0;) {
    if (i + 1 < count) sum += part[i + 1];
    if (i == 0 && thresholds.has_margins) sum += part[0];
    curve.above[i] = sum;
  }
  return curve;
}

struct LabelCurves {
  Curve positive, negative;
};

// Returns the curves of all labels.
std::vector<LabelCurves> CurvesOf(MetricState state, const Thresholds& thresholds) {
  const size_t one = thresholds.values.size() + (thresholds.is_even ? 0 : 1);
  const size_t labels = state.size() / (2 * one);
  std::vector<LabelCurves> curves;
  for (size_t i = 0; i < labels; ++i) {
    curves.push_back({CurveOf(state.subspan(i * one, one), thresholds),
                      CurveOf(state.subspan((labels + i) * one, one), thresholds)});
  }
  return curves;
}

// Returns the area under the curve of precision over recall by the interpolation of Davis and
// Goadrich: between two thresholds, true positives are a line over all positives.
double InterpolatedPrecision(const LabelCurves& curves) {
  const std::vector<double>& tp = curves.positive.above;
  double area = 0;
  for (size_t i = 0; i + 1 < tp.size(); ++i) {
    const double here = tp[i] + curves.negative.above[i];
    const double next = tp[i + 1] + curves.negative.above[i + 1];
    const double true_step = tp[i] - tp[i + 1];
    const double slope = DivideOrZero(true_step, std::max(here - next, 0.0));
    const double intercept = tp[i + 1] - slope * next;
    const double ratio = here > 0 && next > 0 ? here / next : 1;
    const double all = curves.positive.all;
    area += DivideOrZero(slope * (true_step + intercept * std::log(ratio)), all);
  }
  return area;
}

double AreaOf(const LabelCurves& curves, const std::string& curve, const std::string& method) {
  if (curve == "PR" && method == "interpolation") return InterpolatedPrecision(curves);
  const std::vector<double>& tp = curves.positive.above;
  const std::vector<double>& fp = curves.negative.above;
  const auto x = [&](size_t i) {
    return curve == "PR" ? DivideOrZero(tp[i], curves.positive.all)
                         : DivideOrZero(fp[i], curves.negative.all);
  };
  const auto y = [&](size_t i) {
    return curve == "PR" ? DivideOrZero(tp[i], tp[i] + fp[i])
                         : DivideOrZero(tp[i], curves.positive.all);
  };
  double area = 0;
  for (size_t i = 0; i + 1 < tp.size(); ++i) {
    const double height = method == "interpolation" ? (y(i) + y(i + 1)) / 2
                          : method == "minoring"    ? std::min(y(i), y(i + 1))
                                                    : std::max(y(i), y(i + 1));
    area += (x(i) - x(i + 1)) * height;
  }
  return area;
}

std::vector<double> AucOf(const ClassConfig& config, MetricState state) {
  const std::vector<double> weights = config.Numbers("label_weights");
  const std::vector<LabelCurves> curves = CurvesOf(state, ThresholdsOfAuc(config));
  double sum = 0;
  double all = 0;
  for (size_t i = 0; i < curves.size(); ++i) {
    const bool is_weighted = config.Flag("multi_label") && i < weights.size();
    const double weight = is_weighted ? weights[i] : 1;
    sum += weight * AreaOf(curves[i], config.Text("curve"), config.Text("summation_method"));
    all += weight;
  }
  return {DivideOrZero(sum, all)};
}

std::string AddAuc(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  FlatScores flat = AddFlatScores(site);
  if (site.config().Flag("from_logits")) flat.scores = n.Sigmoid(flat.scores);
  const int64_t labels = site.in.y_pred.dims.back();
  const std::vector<double> weights = site.config().Numbers("label_weights");
  const bool by_label = site.config().Flag("multi_label");
  if (!weights.empty() && !by_label) {
    const std::string of_labels =
        n.Constant(Tensor::FromVector(weights, Shape({static_cast<int64_t>(weights.size())})));
    flat.weight = n.Flat(n.Mul(n.Reshape(flat.weight, {-1, labels}), of_labels));
  }
  return AddCurve(flat, ThresholdsOfAuc(site.config()), by_label ? labels : 1, n);
}

// Returns the number of elements of a state with these thresholds.
int64_t CurveSize(const Thresholds& thresholds, int64_t labels) {
  const auto count = static_cast<int64_t>(thresholds.values.size());
  return 2 * labels * (thresholds.is_even ? count : count + 1);
}

int64_t AucSize(const ClassConfig& config, const NodeValue& output) {
  const int64_t labels = config.Flag("multi_label") ? output.dims.back() : 1;
  return CurveSize(ThresholdsOfAuc(config), labels);
}

int64_t RatesSize(const ClassConfig& config, const NodeValue&) {
  return CurveSize(ThresholdsOfRates(config), 1);
}

std::string CheckAuc(const ClassConfig& config) {
  const std::vector<double> weights = config.Numbers("label_weights");
  const bool counted = !config.IsNull("num_labels") && !weights.empty();
  if (counted && config.Whole("num_labels") != static_cast<int64_t>(weights.size())) {
    return absl::StrCat("has ", weights.size(), " label_weights for num_labels ",
                        config.Whole("num_labels"), "; give one for each label");
  }
  return "";
}

std::string CheckAucOutput(const ClassConfig& config, const NodeValue& output) {
  const int64_t labels = output.rank() > 0 ? output.dims.back() : 1;
  const std::vector<double> weights = config.Numbers("label_weights");
  const bool by_label = config.Flag("multi_label");
  if (by_label && output.rank() != 2) return "with multi_label needs an output [N,labels]";
  if (by_label && !config.IsNull("num_labels") && config.Whole("num_labels") != labels) {
    return absl::StrCat("has num_labels ", config.Whole("num_labels"),
                        ", but the model's output has ", labels, " labels; give ", labels);
  }
  if (!weights.empty() && static_cast<int64_t>(weights.size()) != labels) {
    return absl::StrCat("has ", weights.size(), " label_weights, but the model's output has ",
                        labels, " labels; give one for each");
  }
  return "";
}

std::string AddRates(const MetricSite& site) {
  return AddCurve(AddFlatScores(site), ThresholdsOfRates(site.config()), 1, site.nodes);
}

// Returns the largest `wanted` among the thresholds at which `bound` is at least `value`; 0 if
// there is none. The rates are compared in float32, as in Keras.
double BestUnder(const std::vector<double>& bound, const std::vector<double>& wanted,
                 double value) {
  double best = 0;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (static_cast<float>(bound[i]) >= static_cast<float>(value)) best = std::max(best, wanted[i]);
  }
  return best;
}

// The rates of one curve at each threshold.
struct Rates {
  std::vector<double> precision, recall, specificity;
};

Rates RatesOf(const ClassConfig& config, MetricState state) {
  const LabelCurves curves = CurvesOf(state, ThresholdsOfRates(config)).front();
  Rates rates;
  for (size_t i = 0; i < curves.positive.above.size(); ++i) {
    const double tp = curves.positive.above[i];
    const double fp = curves.negative.above[i];
    rates.precision.push_back(DivideOrZero(tp, tp + fp));
    rates.recall.push_back(DivideOrZero(tp, curves.positive.all));
    rates.specificity.push_back(DivideOrZero(curves.negative.all - fp, curves.negative.all));
  }
  return rates;
}

std::vector<double> PrecisionAtRecall(const ClassConfig& config, MetricState state) {
  const Rates rates = RatesOf(config, state);
  return {BestUnder(rates.recall, rates.precision, config.Number("recall"))};
}

std::vector<double> RecallAtPrecision(const ClassConfig& config, MetricState state) {
  const Rates rates = RatesOf(config, state);
  return {BestUnder(rates.precision, rates.recall, config.Number("precision"))};
}

std::vector<double> SensitivityAtSpecificity(const ClassConfig& config, MetricState state) {
  const Rates rates = RatesOf(config, state);
  return {BestUnder(rates.specificity, rates.recall, config.Number("specificity"))};
}

std::vector<double> SpecificityAtSensitivity(const ClassConfig& config, MetricState state) {
  const Rates rates = RatesOf(config, state);
  return {BestUnder(rates.recall, rates.specificity, config.Number("sensitivity"))};
}

std::string CheckClassOfRates(const ClassConfig& config, const NodeValue& output) {
  const int64_t classes = output.rank() > 0 ? output.dims.back() : 0;
  if (config.IsNull("class_id") || config.Whole("class_id") < classes) return "";
  return absl::StrCat("has class_id ", config.Whole("class_id"), ", but the model's output has ",
                      classes, " classes; give one below that");
}

}  // namespace

std::vector<MetricRow> CurveMetrics() {
  const LabelKind like = LabelKind::kLikeOutput;
  const KeyRange share = {.min = 0, .max = 1};
  std::vector<MetricRow> rows;
  MetricRow& auc = rows.emplace_back();
  auc.class_name = "AUC";
  auc.names = {"auc"};
  auc.keys = {
      WholeKey("num_thresholds", 200, {.min = 2, .max = 65536}),
      ChoiceKey("curve", "ROC", {"ROC", "PR"}),
      ChoiceKey("summation_method", "interpolation", {"interpolation", "minoring", "majoring"}),
      OptionalNumbersKey("thresholds", share),
      FlagKey("multi_label", false),
      OptionalWholeKey("num_labels", {.min = 1, .max = 65536}),
      OptionalNumbersKey("label_weights", {.min = 0}),
      FlagKey("from_logits", false)};
  auc.add = AddAuc;
  auc.value = AucOf;
  auc.size = AucSize;
  auc.check = CheckAuc;
  auc.check_output = CheckAucOutput;
  struct Rate {
    const char *class_name, *name, *bound;
    std::vector<double> (*value)(const ClassConfig&, MetricState);
  };
  for (const Rate& rate :
       {Rate{"PrecisionAtRecall", "precision_at_recall", "recall", PrecisionAtRecall},
        Rate{"RecallAtPrecision", "recall_at_precision", "precision", RecallAtPrecision},
        Rate{"SensitivityAtSpecificity", "sensitivity_at_specificity", "specificity",
             SensitivityAtSpecificity},
        Rate{"SpecificityAtSensitivity", "specificity_at_sensitivity", "sensitivity",
             SpecificityAtSensitivity}}) {
    MetricRow& row = rows.emplace_back();
    row.class_name = rate.class_name;
    row.names = {rate.name};
    row.labels = like;
    row.keys = {WholeKey("num_thresholds", 200, {.min = 1, .max = 65536}),
                OptionalWholeKey("class_id", {.min = 0, .max = 1e6}),
                NumberKey(rate.bound, 0.5, share)};
    row.add = AddRates;
    row.value = rate.value;
    row.size = RatesSize;
    row.check_output = CheckClassOfRates;
  }
  return rows;
}

}  // namespace cohort
