// Crossentropies, of probabilities or of logits. If a softmax or a sigmoid made the prediction, the
// loss is computed from that function's input, as in Keras: exact where the probability is rounded
// to 0 or 1.

#include <numeric>

#include "common/program/cohort_ops.h"
#include "coordinator/losses/loss_table.h"

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-7;

constexpr KeyRange kFraction = {.min = 0, .max = 1};
constexpr KeyRange kNotNegative = {.min = 0};

// Returns the logits of the prediction, or "" if the prediction holds probabilities.
std::string LogitsOf(const LossSite& site) {
  if (site.in.logits.has_value()) return site.in.logits.name;
  return site.config().Flag("from_logits") ? site.y_pred() : "";
}

int64_t AxisOf(const LossSite& site) {
  return NormalAxisOf(site.config().Whole("axis"), site.in.y_pred);
}

// Returns labels of two classes with label smoothing: they move towards 1/2.
std::string SmoothBinary(const LossSite& site) {
  const double smoothing = site.config().Number("label_smoothing");
  if (smoothing == 0) return site.y_true();
  return site.nodes.Add(site.nodes.Mul(site.y_true(), 1 - smoothing), 0.5 * smoothing);
}

// Returns labels with label smoothing: they move towards 1 / classes. As in Keras, the number of
// classes is the last extent, whatever the axis is.
std::string SmoothClasses(const LossSite& site) {
  const double smoothing = site.config().Number("label_smoothing");
  if (smoothing == 0) return site.y_true();
  const auto classes = static_cast<double>(site.in.y_pred.dims.back());
  return site.nodes.Add(site.nodes.Mul(site.y_true(), 1 - smoothing), smoothing / classes);
}

// Returns the crossentropy of each element.
std::string BinaryElements(const LossSite& site, const std::string& y, const std::string& logits,
                           const std::string& probabilities) {
  FormulaNodes& n = site.nodes;
  if (!logits.empty()) {
    // max(x, 0) - x y + log(1 + exp(-|x|)), which never overflows. Both kinks are written as one
    // choice, so that their gradients at 0 add up to sigmoid(0) - y, as in TensorFlow.
    const std::string zero = n.Number(0);
    const std::string is_positive = n.Op("GreaterOrEqual", {logits, zero});
    const std::string positive = n.Where(is_positive, logits, zero);
    const std::string minus_size = n.Where(is_positive, n.Neg(logits), logits);
    const std::string tail = n.CohortOp("Log1p", {n.Exp(minus_size)});
    return n.Add(n.Sub(positive, n.Mul(logits, y)), tail);
  }
  // Keras 2 adds its epsilon once more inside of the logarithms; Keras 3 does not.
  const double added = site.spec.keras < 3 ? kEpsilon : 0;
  const auto log = [&](const std::string& x) { return n.Log(added == 0 ? x : n.Add(x, added)); };
  const std::string p = n.Clip(probabilities, kEpsilon, 1 - kEpsilon);
  const std::string of_one = n.Mul(y, log(p));
  const std::string of_zero = n.Mul(n.From(1, y), log(n.From(1, p)));
  return n.Neg(n.Add(of_one, of_zero));
}

ExampleLosses MeanOfAxis(const LossSite& site, const std::string& elements) {
  const int64_t axis = AxisOf(site);
  return {{site.nodes.Mean(elements, {axis}), DimsWithout(site.in.y_pred, {axis})}, {}};
}

ExampleLosses Binary(const LossSite& site) {
  return MeanOfAxis(site, BinaryElements(site, SmoothBinary(site), LogitsOf(site), site.y_pred()));
}

ExampleLosses BinaryFocal(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string y = SmoothBinary(site);
  const std::string p =
      site.config().Flag("from_logits") ? n.Sigmoid(site.y_pred()) : site.y_pred();
  const std::string crossentropy = BinaryElements(site, y, LogitsOf(site), p);
  // The probability that the model gives to the right class.
  const std::string right = n.Add(n.Mul(y, p), n.Mul(n.From(1, y), n.From(1, p)));
  const std::string focus = n.Power(n.From(1, right), site.config().Number("gamma"));
  std::string loss = n.Mul(focus, crossentropy);
  if (site.config().Flag("apply_class_balancing")) {
    const double alpha = site.config().Number("alpha");
    loss = n.Mul(n.Add(n.Mul(y, alpha), n.Mul(n.From(1, y), 1 - alpha)), loss);
  }
  return MeanOfAxis(site, loss);
}

ExampleLosses Categorical(const LossSite& site) {
  const std::string logits = LogitsOf(site);
  const int64_t axis = AxisOf(site);
  const std::string loss = site.nodes.CohortOp(
      "CategoricalCrossentropy", {SmoothClasses(site), logits.empty() ? site.y_pred() : logits},
      {IntAttribute("axis", axis), IntAttribute("from_logits", logits.empty() ? 0 : 1)});
  return {{loss, DimsWithout(site.in.y_pred, {axis})}, {}};
}

ExampleLosses CategoricalFocal(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const int64_t axis = AxisOf(site);
  std::string p = site.y_pred();
  if (site.config().Flag("from_logits")) p = n.Op("Softmax", {p}, {IntAttribute("axis", axis)});
  p = n.Clip(n.Div(p, n.SumKept(p, {axis})), kEpsilon, 1 - kEpsilon);
  const std::string crossentropy = n.Neg(n.Mul(SmoothClasses(site), n.Log(p)));
  const std::string focus = n.Power(n.From(1, p), site.config().Number("gamma"));
  const std::string weight = n.Mul(focus, site.config().Number("alpha"));
  return {{n.Sum(n.Mul(weight, crossentropy), {axis}), DimsWithout(site.in.y_pred, {axis})}, {}};
}

// Returns the values with the axis moved to the end.
std::string AxisLast(FormulaNodes& n, const std::string& x, int rank, int64_t axis) {
  if (axis == rank - 1) return x;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return n.Transpose(x, order);
}

ExampleLosses Sparse(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string logits = LogitsOf(site);
  const int64_t axis = AxisOf(site);
  const std::string scores =
      AxisLast(n, logits.empty() ? site.y_pred() : logits, site.in.y_pred.rank(), axis);
  const std::vector<int64_t> dims = DimsWithout(site.in.y_pred, {axis});
  const std::vector<onnx::AttributeProto> attributes = {
      IntAttribute("from_logits", logits.empty() ? 0 : 1)};
  const char* const op = "SparseCategoricalCrossentropy";
  if (site.config().IsNull("ignore_class")) {
    return {{n.CohortOp(op, {site.y_true(), scores}, attributes), dims}, {}};
  }
  // Examples of the ignored class get the label 0, which is a class, and their losses are set to 0.
  const std::string ignored = n.Equal(site.y_true(), n.Int(site.config().Whole("ignore_class")));
  const std::string labels = n.Where(ignored, n.Int(0), site.y_true());
  const std::string losses = n.CohortOp(op, {labels, scores}, attributes);
  return {{n.Where(ignored, n.Number(0), losses), dims}, {n.Not(ignored), dims, DType::kBool}};
}

ExampleLosses Generalized(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const double q = site.config().Number("q");
  const std::string label = n.Unsqueeze(site.y_true(), -1);
  const std::string p =
      n.Squeeze(n.Op("GatherElements", {site.y_pred(), label}, {IntAttribute("axis", -1)}), -1);
  return {{n.Div(n.From(1, n.Power(p, q)), q), DimsWithout(site.in.y_pred, {-1})}, {}};
}

ConfigKey AxisKey() {
  ConfigKey key = WholeKey("axis", -1, {.min = -8, .max = 8});
  key.is_later = true;
  return key;
}
ConfigKey SmoothingKey() { return NumberKey("label_smoothing", 0, kFraction); }
ConfigKey LogitsKey() { return FlagKey("from_logits", false); }

}  // namespace

std::vector<LossRow> CrossentropyLosses() {
  std::vector<LossRow> rows = {
      {"BinaryCrossentropy",
       {"binary_crossentropy", "bce", "BCE"},
       LabelKind::kLikeOutput,
       {LogitsKey(), SmoothingKey(), AxisKey()},
       Binary},
      {"BinaryFocalCrossentropy",
       {"binary_focal_crossentropy"},
       LabelKind::kLikeOutput,
       {FlagKey("apply_class_balancing", false), NumberKey("alpha", 0.25, kFraction),
        NumberKey("gamma", 2, kNotNegative), LogitsKey(), SmoothingKey(), AxisKey()},
       BinaryFocal},
      {"CategoricalCrossentropy",
       {"categorical_crossentropy"},
       LabelKind::kLikeOutput,
       {LogitsKey(), SmoothingKey(), AxisKey()},
       Categorical},
      {"CategoricalFocalCrossentropy",
       {"categorical_focal_crossentropy"},
       LabelKind::kLikeOutput,
       {NumberKey("alpha", 0.25, kFraction), NumberKey("gamma", 2, kNotNegative), LogitsKey(),
        SmoothingKey(), AxisKey()},
       CategoricalFocal},
      {"SparseCategoricalCrossentropy",
       {"sparse_categorical_crossentropy"},
       LabelKind::kClasses,
       {LogitsKey(), OptionalWholeKey("ignore_class", {.min = -1e9, .max = 1e9}), AxisKey()},
       Sparse},
      {"CategoricalGeneralizedCrossEntropy",
       {"categorical_generalized_cross_entropy"},
       LabelKind::kClasses,
       {NumberKey("q", 0.5, {.min = 0, .max = 1, .min_excluded = true, .max_excluded = true})},
       Generalized},
  };
  for (LossRow& row : rows) {
    row.differs_by_version =
        row.class_name == "BinaryCrossentropy" || row.class_name == "BinaryFocalCrossentropy";
  }
  rows.back().only_keras3 = true;
  return rows;
}

}  // namespace cohort
