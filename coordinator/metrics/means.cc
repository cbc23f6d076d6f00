// Metrics that are a mean of one number for each example: the losses as metrics, correlations, and
// the plain mean and sum.

#include <cmath>

#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

// Adds the mean of the losses of the class `loss_class`, which has the same keys as the metric.
std::string AddMeanLoss(const MetricSite& site, const char* loss_class, bool negated) {
  LossSpec loss;
  loss.class_name = loss_class;
  loss.keras = site.spec.keras;
  loss.config = site.spec.config;
  ExampleLosses losses = AddExampleLosses(loss, site.in, site.nodes);
  if (negated) losses.values.name = site.nodes.Neg(losses.values.name);
  NodeValue weight = site.weight;
  // The loss of an ignored class is 0. In Keras 3 it counts in the mean, unless there are weights.
  const bool leaves_out = site.spec.keras < 3 || weight.has_value();
  if (losses.mask.has_value() && leaves_out) {
    const std::string counted = site.nodes.ToFloat(losses.mask.name);
    weight = weight.has_value()
                 ? NodeValue{site.nodes.Mul(AlignWeight(weight, losses.values, site.nodes).name,
                                            counted),
                             losses.values.dims}
                 : NodeValue{counted, losses.values.dims};
  }
  return AddMeanState(losses.values, weight, site.nodes);
}

std::string AddOwnLoss(const MetricSite& site) {
  const LossRow* row = FindLossClass(site.spec.class_name);
  if (row == nullptr) row = FindLossFunction(site.spec.class_name);
  return AddMeanLoss(site, row->class_name.c_str(), /*negated=*/false);
}

std::string AddLogCosh(const MetricSite& site) {
  return AddMeanLoss(site, "LogCosh", /*negated=*/false);
}

// Adds the mean cosine similarity. Keras's loss of this name is its negative, so that it can be
// minimized.
std::string AddCosine(const MetricSite& site) {
  return AddMeanLoss(site, "CosineSimilarity", /*negated=*/true);
}

std::string AddSquaredErrors(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  NodeValue squares = {n.Square(n.Sub(site.y_pred(), site.y_true())), site.in.y_pred.dims};
  // Keras 3 first takes the mean over each example, unless each value has a weight of its own.
  if (site.spec.keras >= 3 && squares.rank() > 1) {
    std::vector<int64_t> axes;
    for (int64_t axis = 1; axis < squares.rank(); ++axis) axes.push_back(axis);
    if (site.weight.rank() < 2) squares = {n.Mean(squares.name, axes), {squares.dims[0]}};
  }
  return AddMeanState(squares, site.weight, n);
}

std::vector<double> RootOfMean(const ClassConfig& config, MetricState state) {
  return {std::sqrt(MeanOfState(config, state)[0])};
}

// Values minus their mean along an axis, and their variance.
struct Centered {
  std::string mean, values, variance;
};

Centered Center(FormulaNodes& n, const std::string& x, int64_t axis) {
  Centered centered;
  centered.mean = n.MeanKept(x, {axis});
  centered.values = n.Sub(x, centered.mean);
  centered.variance = n.MeanKept(n.Square(centered.values), {axis});
  return centered;
}

std::string AddCorrelation(const MetricSite& site, const std::string& correlation, int64_t axis) {
  const NodeValue each = {site.nodes.Mean(correlation, {axis}),
                          DimsWithout(site.in.y_pred, {axis})};
  return AddMeanState(each, site.weight, site.nodes);
}

std::string AddPearson(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const int64_t axis = site.config().Whole("axis");
  const Centered truth = Center(n, site.y_true(), axis);
  const Centered prediction = Center(n, site.y_pred(), axis);
  const std::string product = n.Mul(n.Div(truth.values, n.Sqrt(truth.variance)),
                                    n.Div(prediction.values, n.Sqrt(prediction.variance)));
  return AddCorrelation(site, product, axis);
}

std::string AddConcordance(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const int64_t axis = site.config().Whole("axis");
  const Centered truth = Center(n, site.y_true(), axis);
  const Centered prediction = Center(n, site.y_pred(), axis);
  const std::string shared = n.MeanKept(n.Mul(truth.values, prediction.values), {axis});
  const std::string apart = n.Square(n.Sub(truth.mean, prediction.mean));
  const std::string spread = n.Add(n.Add(truth.variance, prediction.variance), apart);
  return AddCorrelation(site, n.Div(n.Mul(shared, 2), n.Add(spread, 1e-7)), axis);
}

// As in Keras, a plain mean or sum in a list of metrics takes the labels as its values and the
// model's output as their weights.
std::string AddMean(const MetricSite& site) {
  return AddMeanState(site.in.y_true, site.in.y_pred, site.nodes);
}

std::vector<double> SumOfState(const ClassConfig&, MetricState state) { return {state[0]}; }

MetricRow MeanOf(const std::string& class_name, std::vector<std::string> names,
                 const char* loss_class) {
  const LossRow* const loss = FindLossClass(loss_class);
  MetricRow row;
  row.class_name = class_name;
  row.names = std::move(names);
  row.labels = loss->labels;
  row.keys = loss->keys;
  row.add = AddOwnLoss;
  row.value = MeanOfState;
  row.check = loss->check;
  row.only_keras3 = loss->only_keras3;
  return row;
}

}  // namespace

std::vector<MetricRow> MeanMetrics() {
  std::vector<MetricRow> rows;
  // Losses that are metrics of the same class name.
  for (const char* name : {"MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
                           "MeanSquaredLogarithmicError", "Poisson", "KLDivergence", "Hinge",
                           "SquaredHinge", "CategoricalHinge", "BinaryCrossentropy",
                           "CategoricalCrossentropy", "SparseCategoricalCrossentropy"}) {
    rows.push_back(MeanOf(name, FindLossClass(name)->names, name));
  }
  rows.push_back(MeanOf("LogCoshError", {"logcosh", "log_cosh_error"}, "LogCosh"));
  rows.back().add = AddLogCosh;
  rows.push_back(
      MeanOf("CosineSimilarity", FindLossClass("CosineSimilarity")->names, "CosineSimilarity"));
  rows.back().add = AddCosine;
  // The other losses are metrics by the names of their functions alone.
  for (const char* name :
       {"Huber", "LogCosh", "BinaryFocalCrossentropy", "CategoricalFocalCrossentropy", "Dice",
        "Tversky", "Circle", "CategoricalGeneralizedCrossEntropy"}) {
    std::vector<std::string> names = FindLossClass(name)->names;
    if (std::string(name) == "LogCosh") names = {"log_cosh"};
    rows.push_back(MeanOf(names.front(), names, name));
  }
  const LabelKind like = LabelKind::kLikeOutput;
  const ConfigKey axis = WholeKey("axis", -1, {.min = -8, .max = 8});
  rows.push_back({"RootMeanSquaredError",
                  {"root_mean_squared_error", "rmse"},
                  like,
                  {},
                  AddSquaredErrors,
                  RootOfMean});
  rows.push_back(
      {"PearsonCorrelation", {"pearson_correlation"}, like, {axis}, AddPearson, MeanOfState});
  rows.back().only_keras3 = true;
  rows.push_back({"ConcordanceCorrelation",
                  {"concordance_correlation"},
                  like,
                  {axis},
                  AddConcordance,
                  MeanOfState});
  rows.back().only_keras3 = true;
  rows.push_back({"Mean", {"mean"}, like, {}, AddMean, MeanOfState});
  rows.push_back({"Sum", {"sum"}, like, {}, AddMean, SumOfState});
  return rows;
}

}  // namespace cohort
