// Regression losses: the mean, over the last axis, of a function of label and prediction.

#include <cmath>

#include "coordinator/losses/loss_table.h"

namespace cohort {
namespace {

// Keras's epsilon.
constexpr double kEpsilon = 1e-7;

// Returns the mean over the last axis, which is the loss of one example.
ExampleLosses MeanOfLast(const LossSite& site, const std::string& values) {
  return {{site.nodes.Mean(values, {-1}), DimsWithout(site.in.y_pred, {-1})}, {}};
}

std::string Error(const LossSite& site) { return site.nodes.Sub(site.y_pred(), site.y_true()); }

ExampleLosses SquaredError(const LossSite& site) {
  return MeanOfLast(site, site.nodes.Square(Error(site)));
}

ExampleLosses AbsoluteError(const LossSite& site) {
  return MeanOfLast(site, site.nodes.Abs(Error(site)));
}

ExampleLosses PercentageError(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string size = n.AtLeast(n.Abs(site.y_true()), kEpsilon);
  const std::string part = n.Abs(n.Div(n.Sub(site.y_true(), site.y_pred()), size));
  ExampleLosses losses = MeanOfLast(site, part);
  losses.values.name = n.Mul(losses.values.name, 100);
  return losses;
}

ExampleLosses LogarithmicError(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const auto log = [&](const std::string& x) { return n.Log(n.Add(n.AtLeast(x, kEpsilon), 1)); };
  return MeanOfLast(site, n.Square(n.Sub(log(site.y_pred()), log(site.y_true()))));
}

ExampleLosses Huber(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const double delta = site.config().Number("delta");
  const std::string error = Error(site);
  const std::string size = n.Abs(error);
  const std::string near = n.Mul(n.Square(error), 0.5);
  const std::string far = n.Sub(n.Mul(size, delta), 0.5 * delta * delta);
  const std::string is_near = n.Op("LessOrEqual", {size, n.Number(delta)});
  return MeanOfLast(site, n.Where(is_near, near, far));
}

ExampleLosses LogCosh(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string error = Error(site);
  // Computes log(cosh(e)) in a form that does not overflow.
  const std::string part = n.Add(error, n.Softplus(n.Mul(error, -2)));
  return MeanOfLast(site, n.Sub(part, std::log(2.0)));
}

ExampleLosses Poisson(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string log = n.Log(n.Add(site.y_pred(), kEpsilon));
  return MeanOfLast(site, n.Sub(site.y_pred(), n.Mul(site.y_true(), log)));
}

ExampleLosses Divergence(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string truth = n.Clip(site.y_true(), kEpsilon, 1);
  const std::string prediction = n.Clip(site.y_pred(), kEpsilon, 1);
  const std::string part = n.Mul(truth, n.Log(n.Div(truth, prediction)));
  // The divergence is a sum over the classes.
  return {{n.Sum(part, {-1}), DimsWithout(site.in.y_pred, {-1})}, {}};
}

// Returns x divided by its norm along the axis.
std::string Normalized(FormulaNodes& n, const std::string& x, int64_t axis) {
  const std::string squares = n.AtLeast(n.SumKept(n.Square(x), {axis}), 1e-12);
  return n.Div(x, n.Sqrt(squares));
}

ExampleLosses CosineSimilarity(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const int64_t axis = site.config().Whole("axis");
  const std::string product =
      n.Mul(Normalized(n, site.y_true(), axis), Normalized(n, site.y_pred(), axis));
  return {{n.Neg(n.Sum(product, {axis})), DimsWithout(site.in.y_pred, {axis})}, {}};
}

}  // namespace

std::vector<LossRow> RegressionLosses() {
  const LabelKind like = LabelKind::kLikeOutput;
  return {
      {"MeanSquaredError", {"mean_squared_error", "mse", "MSE"}, like, {}, SquaredError},
      {"MeanAbsoluteError", {"mean_absolute_error", "mae", "MAE"}, like, {}, AbsoluteError},
      {"MeanAbsolutePercentageError",
       {"mean_absolute_percentage_error", "mape", "MAPE"},
       like,
       {},
       PercentageError},
      {"MeanSquaredLogarithmicError",
       {"mean_squared_logarithmic_error", "msle", "MSLE"},
       like,
       {},
       LogarithmicError},
      {"Huber",
       {"huber", "huber_loss"},
       like,
       {NumberKey("delta", 1, {.min = 0, .min_excluded = true})},
       Huber},
      {"LogCosh", {"log_cosh", "logcosh"}, like, {}, LogCosh},
      {"Poisson", {"poisson"}, like, {}, Poisson},
      {"KLDivergence",
       {"kl_divergence", "kld", "KLD", "kullback_leibler_divergence"},
       like,
       {},
       Divergence},
      {"CosineSimilarity",
       {"cosine_similarity", "cosine_proximity"},
       like,
       {WholeKey("axis", -1, {.min = -8, .max = 8})},
       CosineSimilarity},
  };
}

}  // namespace cohort
