#include "coordinator/model/loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/job/data_spec.h"

namespace cohort {
namespace {

const std::string& NameOf(const LossSpec& loss) { return RowOf(loss).names.front(); }

// Returns the loss or the metric of an output as messages name it: "compile.loss 'mse' of output
// 'out'". The output's name is left out if the file does not give it.
std::string Named(absl::string_view what, const OutputSpec& spec) {
  return spec.name.empty() ? std::string(what) : absl::StrCat(what, " of output '", spec.name, "'");
}

std::string NamedLoss(const OutputSpec& spec) {
  return Named(absl::StrCat("compile.loss '", NameOf(spec.loss), "'"), spec);
}

// Returns an output of this shape for one example as a value of a graph.
NodeValue OutputValue(const std::string& name, const Shape& example) {
  NodeValue value{name, {-1}};
  value.dims.insert(value.dims.end(), example.dims().begin(), example.dims().end());
  return value;
}

bool IsCrossentropyOfClasses(const LossSpec& loss) {
  return loss.class_name == "CategoricalCrossentropy" ||
         loss.class_name == "CategoricalFocalCrossentropy";
}

// Returns the end of the message about labels of type `type` that do not fit a loss which compares
// them with an output of their shape.
std::string DenseRemedy(const LossSpec& loss, const Shape& output) {
  if (!IsCrossentropyOfClasses(loss)) {
    return "; give labels of that shape, or change the last layer's units";
  }
  return absl::StrCat("; put CategoryEncoding with num_tokens ", output.dim(0),
                      " into data.pipeline, change the last layer's units, or use "
                      "'sparse_categorical_crossentropy'");
}

absl::Status RefuseLabels(const OutputSpec& spec, const Shape& output,
                          const proto::ComponentSpec& y) {
  const LossSpec& loss = spec.loss;
  const LabelKind kind = RowOf(loss).labels;
  const std::string what = NamedLoss(spec);
  const std::string type = absl::StrCat(DTypeName(static_cast<DType>(y.dtype())), "[",
                                        absl::StrJoin(y.dims(), ","), "]");
  if (output.rank() != 1 && kind != LabelKind::kSequences) {
    const bool of_classes = kind != LabelKind::kLikeOutput;
    return absl::InvalidArgumentError(absl::StrCat(
        what, of_classes ? " needs a class number for each row of scores" : " needs labels",
        " in the shape of the model's output, which is ", output.ToString(),
        " per example, but labels are ", type,
        "; end the model with Dense, put Flatten before it, or give such labels"));
  }
  if (kind == LabelKind::kLikeOutput) {
    return absl::InvalidArgumentError(absl::StrCat(what, " needs labels [N,", output.dim(0),
                                                   "], but they are ", type,
                                                   DenseRemedy(loss, output)));
  }
  if (kind == LabelKind::kSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     " needs labels [N,labels] and an output [steps,classes] per example, "
                     "but labels are ",
                     type, " and the output is ", output.ToString()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, " needs one integer label per example, but labels are ", type,
      "; use 'categorical_crossentropy' if they are one-hot, and leave CategoryEncoding out of "
      "data.pipeline if they are integers in the file"));
}

// Checks that the metrics of an output can read the labels of its loss.
absl::Status CheckMetricsOf(const OutputSpec& output) {
  if (!output.has_loss) return absl::OkStatus();
  const LabelKind labels = RowOf(output.loss).labels;
  for (const MetricSpec& metric : output.metrics) {
    const LabelKind wanted = RowOf(metric).labels;
    // Labels that are class numbers are no scores, and scores are no class numbers.
    const bool differs = (labels == LabelKind::kClasses && wanted == LabelKind::kLikeOutput) ||
                         (labels == LabelKind::kLikeOutput && wanted == LabelKind::kClasses);
    if (!differs) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("compile.metrics: ", Named(absl::StrCat("'", metric.name, "'"), output),
                     " does not fit the labels of '", NameOf(output.loss),
                     "'; use 'accuracy', which is resolved by the loss, or ",
                     "a metric that takes such labels"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMetrics(const CompileSpec& compile) {
  for (const OutputSpec& output : compile.outputs) RETURN_IF_ERROR(CheckMetricsOf(output));
  return absl::OkStatus();
}

NodeValue ValueOf(const std::string& name, const proto::ComponentSpec& component) {
  return {name,
          {component.dims().begin(), component.dims().end()},
          static_cast<DType>(component.dtype())};
}

std::vector<MetricSpec> ResolvedMetrics(const OutputSpec& spec, const NodeValue& labels,
                                        const Shape& output) {
  std::vector<MetricSpec> resolved;
  for (const MetricSpec& metric : spec.metrics) {
    resolved.push_back(ResolveMetric(metric, labels, OutputValue("", output)));
  }
  return resolved;
}

std::vector<int64_t> StateSizes(const std::vector<MetricSpec>& metrics, const Shape& output) {
  std::vector<int64_t> sizes;
  sizes.reserve(metrics.size());
  for (const MetricSpec& metric : metrics) {
    sizes.push_back(MetricStateSize(metric, OutputValue("", output)));
  }
  return sizes;
}

absl::Status CheckLabels(const OutputSpec& spec, const Shape& output,
                         const proto::ComponentSpec& y) {
  RETURN_IF_ERROR(DTypeFromNumber(y.dtype()).status());
  const NodeValue value = OutputValue("", output);
  NodeValue labels = ValueOf("", y);
  if (spec.has_loss) {
    const bool takes_classes = TakesClasses(spec.loss, output);
    const LossRow& row = RowOf(spec.loss);
    RETURN_IF_ERROR(CheckAxes(spec.loss.config, value, NamedLoss(spec)));
    const NodeValue shown = OutputForLabels(row.labels, spec.loss.config, value);
    if (!CheckLabelShape(row.labels, labels, shown, "").ok() || (takes_classes && !HasLabels(y))) {
      return RefuseLabels(spec, output, y);
    }
    RETURN_IF_ERROR(CheckMetricsOf(spec));
    if (takes_classes) labels = ValueOf("", ClassLabels(y));
  }
  for (const MetricSpec& metric : ResolvedMetrics(spec, labels, output)) {
    RETURN_IF_ERROR(CheckMetricShape(metric, labels, value));
  }
  return absl::OkStatus();
}

bool TakesClasses(const LossSpec& loss, const Shape& output) {
  const LossRow& row = RowOf(loss);
  if (row.labels != LabelKind::kClasses || output.rank() != 1) return false;
  // A class that is ignored need not be one of the output's.
  const bool ignores = std::any_of(row.keys.begin(), row.keys.end(), [&](const ConfigKey& key) {
    return key.name == "ignore_class" && !loss.config.IsNull(key.name);
  });
  return !ignores;
}

proto::ComponentSpec ReadableLabels(const OutputSpec& spec, const Shape& output) {
  std::vector<int64_t> dims(output.dims().begin(), output.dims().end());
  LabelKind kind = RowOf(spec.loss).labels;
  if (!spec.has_loss && !spec.metrics.empty()) kind = RowOf(spec.metrics.front()).labels;
  proto::ComponentSpec labels;
  const bool like_output = kind == LabelKind::kLikeOutput || kind == LabelKind::kAny;
  labels.set_dtype(static_cast<int32_t>(like_output ? DType::kFloat32 : DType::kUint8));
  labels.add_dims(-1);
  if (kind == LabelKind::kClasses && !dims.empty()) dims.pop_back();
  if (kind == LabelKind::kClassRows) dims.clear();
  if (kind == LabelKind::kSequences) dims = {1};
  for (const int64_t dim : dims) labels.add_dims(dim);
  return labels;
}

NodeValue AddClassWeights(const LossSpec& loss, const NodeValue& labels,
                          const std::map<int64_t, double>& weights, FormulaNodes& nodes) {
  // Labels of several scores belong to the class of the largest one.
  std::string classes = labels.name;
  std::vector<int64_t> dims = labels.dims;
  const bool of_classes = RowOf(loss).labels != LabelKind::kLikeOutput;
  if (labels.rank() > 1 && (dims.back() == 1 || !of_classes)) {
    classes = dims.back() == 1 ? nodes.Squeeze(classes, -1) : nodes.LargestIndex(classes, -1);
    dims.pop_back();
  }
  if (labels.dtype == DType::kFloat32 || labels.dtype == DType::kFloat64) {
    if (dims.size() == labels.dims.size() || labels.dims.back() == 1) {
      classes = nodes.Op("Round", {classes});
    }
  }
  classes = nodes.Cast(classes, DType::kInt64);
  const int64_t count = weights.rbegin()->first + 1;
  std::vector<double> table(static_cast<size_t>(count), 1.0);
  for (const auto& [id, weight] : weights) table[static_cast<size_t>(id)] = weight;
  const std::string inside = nodes.And(nodes.Op("GreaterOrEqual", {classes, nodes.Int(0)}),
                                       nodes.Op("Less", {classes, nodes.Int(count)}));
  const std::string known = nodes.Where(inside, classes, nodes.Int(0));
  const std::string weight =
      nodes.Op("Gather", {nodes.Numbers(table), known}, {IntAttribute("axis", 0)});
  return {nodes.Where(inside, weight, nodes.Number(1)), dims};
}

absl::StatusOr<StepLoss> AddStepLoss(const OutputSpec& spec, const std::vector<MetricSpec>& metrics,
                                     const LossOutput& output, const NodeValue& labels,
                                     const ExampleWeights& weights, FormulaNodes& nodes) {
  StepLoss step;
  LossInputs in;
  in.y_true = labels;
  in.y_pred = OutputValue(output.value, output.shape);
  if (!output.logits.empty()) in.logits = OutputValue(output.logits, output.shape);
  nodes.graph().SetNamePrefix(absl::StrCat("loss/", output.prefix));
  step.examples = nodes.ToFloat(nodes.RowsOf(labels.name));
  if (spec.has_loss) {
    LossInputs fitted = in;
    const LabelKind kind = RowOf(spec.loss).labels;
    ASSIGN_OR_RETURN(fitted.y_true,
                     FitLabels(kind, labels, OutputForLabels(kind, spec.loss.config, in.y_pred),
                               NamedLoss(spec), nodes));
    const BatchLoss loss =
        AddBatchLoss(spec.loss.reduction, AddExampleLosses(spec.loss, fitted, nodes), weights,
                     step.examples, nodes);
    step.mean = loss.mean;
    step.sum = step.unweighted_sum = loss.sum;
    if (spec.loss_weight != 1) {
      step.mean = nodes.Mul(loss.mean, spec.loss_weight);
      step.sum = nodes.Mul(loss.sum, spec.loss_weight);
    }
  }
  nodes.graph().SetNamePrefix(absl::StrCat("metrics/", output.prefix));
  for (const MetricSpec& metric : metrics) {
    ASSIGN_OR_RETURN(step.metrics.emplace_back(), AddMetricState(metric, in, weights, nodes));
  }
  return step;
}

}  // namespace cohort
