#include "coordinator/metrics/metric_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr char kAccuracy[] = "accuracy";
constexpr char kCrossentropy[] = "crossentropy";

// Returns the rows of metrics that stand for others, by the shapes of labels and output.
std::vector<MetricRow> MetricsByShape() {
  return {{kAccuracy, {kAccuracy, "acc"}, LabelKind::kAny, {}},
          {kCrossentropy, {kCrossentropy, "ce"}, LabelKind::kAny, {}}};
}

std::string Refused(const MetricSpec& spec) {
  return absl::StrCat("compile.metrics: '", spec.name, "'");
}

}  // namespace

const std::vector<MetricRow>& MetricTable() {
  static const auto* const table = [] {
    auto* const rows = new std::vector<MetricRow>();
    for (auto family : {MetricsByShape, AccuracyMetrics, MeanMetrics, ConfusionMetrics,
                        CurveMetrics, ScoreMetrics, OverlapMetrics}) {
      for (MetricRow& row : family()) rows->push_back(std::move(row));
    }
    return rows;
  }();
  return *table;
}

const MetricRow* FindMetricClass(absl::string_view class_name) {
  const std::vector<MetricRow>& table = MetricTable();
  const auto found = std::find_if(table.begin(), table.end(), [&](const MetricRow& row) {
    return row.class_name == class_name;
  });
  return found == table.end() ? nullptr : &*found;
}

const MetricRow* FindMetricFunction(absl::string_view name) {
  const std::vector<MetricRow>& table = MetricTable();
  const auto found = std::find_if(table.begin(), table.end(), [&](const MetricRow& row) {
    return std::find(row.names.begin(), row.names.end(), name) != row.names.end();
  });
  return found == table.end() ? nullptr : &*found;
}

const MetricRow& RowOf(const MetricSpec& spec) {
  const MetricRow* const row = FindMetricClass(spec.class_name);
  COHORT_CHECK(row != nullptr, "the metric has a row in the table");
  return *row;
}

MetricSpec DefaultMetric(const MetricRow& row, int keras) {
  MetricSpec spec;
  spec.class_name = row.class_name;
  spec.name = row.names.front();
  spec.keras = keras;
  spec.config = ClassConfig::Default(row.keys);
  return spec;
}

bool IsByShape(const MetricSpec& spec) {
  return spec.class_name == kAccuracy || spec.class_name == kCrossentropy;
}

MetricSpec ResolveMetric(const MetricSpec& spec, const NodeValue& labels, const NodeValue& output) {
  if (!IsByShape(spec)) return spec;
  const bool is_accuracy = spec.class_name == kAccuracy;
  const bool is_binary = output.rank() > 0 && output.dims.back() == 1;
  const bool is_sparse =
      labels.rank() < output.rank() || (labels.rank() > 0 && labels.dims.back() == 1);
  const char* name = is_accuracy ? "CategoricalAccuracy" : "CategoricalCrossentropy";
  if (is_binary) {
    name = is_accuracy ? "BinaryAccuracy" : "BinaryCrossentropy";
  } else if (is_sparse) {
    name = is_accuracy ? "SparseCategoricalAccuracy" : "SparseCategoricalCrossentropy";
  }
  MetricSpec resolved = DefaultMetric(*FindMetricClass(name), spec.keras);
  resolved.name = spec.name;
  resolved.weighted = spec.weighted;
  return resolved;
}

absl::Status CheckMetricShape(const MetricSpec& spec, const NodeValue& labels,
                              const NodeValue& output) {
  const MetricRow& row = RowOf(spec);
  if (row.check_output != nullptr) {
    const std::string wrong = row.check_output(spec.config, output);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(Refused(spec), " ", wrong));
    }
  }
  RETURN_IF_ERROR(CheckAxes(spec.config, output, Refused(spec)));
  return CheckLabelShape(row.labels, labels, OutputForLabels(row.labels, spec.config, output),
                         Refused(spec));
}

absl::StatusOr<std::string> AddMetricState(const MetricSpec& spec, const LossInputs& inputs,
                                           const ExampleWeights& weights, FormulaNodes& nodes) {
  const MetricRow& row = RowOf(spec);
  RETURN_IF_ERROR(CheckMetricShape(spec, inputs.y_true, inputs.y_pred));
  LossInputs fitted = inputs;
  ASSIGN_OR_RETURN(fitted.y_true, FitLabels(row.labels, inputs.y_true,
                                            OutputForLabels(row.labels, spec.config, inputs.y_pred),
                                            Refused(spec), nodes));
  NodeValue weight = spec.weighted ? weights.sample_weight : NodeValue();
  // In Keras 2 a mask applies to every metric, in Keras 3 only to means of values.
  if (weights.mask.has_value() && (spec.keras < 3 || row.value == MeanOfState)) {
    const NodeValue counted = {nodes.ToFloat(weights.mask.name), weights.mask.dims};
    weight = weight.has_value()
                 ? NodeValue{nodes.Mul(AlignWeight(weight, counted, nodes).name, counted.name),
                             counted.dims}
                 : counted;
  }
  const std::string state = row.add(MetricSite{nodes, spec, fitted, weight});
  if (row.size == nullptr) return state;
  // The state is reshaped to its size, because the graph does not know the shapes of the weights.
  return nodes.Reshape(state, {MetricStateSize(spec, inputs.y_pred)});
}

int64_t MetricStateSize(const MetricSpec& spec, const NodeValue& output) {
  const MetricRow& row = RowOf(spec);
  return row.size == nullptr ? 2 : row.size(spec.config, output);
}

std::vector<double> MetricValue(const MetricSpec& spec, MetricState state) {
  return RowOf(spec).value(spec.config, state);
}

std::vector<std::pair<std::string, double>> NamedMetrics(absl::Span<const MetricSpec> metrics,
                                                         absl::Span<const int64_t> sizes,
                                                         MetricState states) {
  std::vector<std::pair<std::string, double>> named;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const auto size = static_cast<size_t>(sizes[i]);
    if (states.size() < size) return named;
    const std::vector<double> values = MetricValue(metrics[i], states.subspan(0, size));
    states.remove_prefix(size);
    for (size_t j = 0; j < values.size(); ++j) {
      const std::string& name = metrics[i].name;
      named.emplace_back(values.size() == 1 ? name : absl::StrCat(name, "_", j), values[j]);
    }
  }
  return named;
}

std::string SpreadWeight(const NodeValue& weight, const NodeValue& values, FormulaNodes& nodes) {
  const std::string shape = nodes.ShapeOf(values.name);
  if (!weight.has_value()) return nodes.Op("Expand", {nodes.Double(1), shape});
  const NodeValue aligned = AlignWeight(weight, values, nodes);
  return nodes.Op("Expand", {nodes.ToDouble(aligned.name), shape});
}

std::string AddMeanState(const NodeValue& values, const NodeValue& weight, FormulaNodes& nodes) {
  std::string sum = nodes.ToDouble(values.name);
  std::string count = nodes.ToDouble(nodes.SizeOf(values.name));
  if (weight.has_value()) {
    const std::string spread = SpreadWeight(weight, values, nodes);
    sum = nodes.Mul(sum, spread);
    count = nodes.SumAll(spread);
  }
  sum = nodes.SumAll(sum);
  return nodes.Join({nodes.Reshape(sum, {1}), nodes.Reshape(count, {1})}, 0);
}

std::vector<double> MeanOfState(const ClassConfig&, MetricState state) {
  return {DivideOrZero(state[0], state.size() > 1 ? state[1] : 0)};
}

double DivideOrZero(double a, double b) { return b == 0 ? 0 : a / b; }

}  // namespace cohort
