#include "coordinator/model/loss.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "coordinator/job/data_spec.h"

namespace cohort {
namespace {

bool IsSparse(const LossSpec& loss) {
  return loss.kind == LossKind::kSparseCategoricalCrossentropy;
}

std::string CastTo(DType dtype, const std::string& value, GraphBuilder& graph) {
  return graph.Op("Cast", {value}, {IntAttribute("to", static_cast<int64_t>(dtype))});
}

std::string ArgMax(const std::string& value, GraphBuilder& graph) {
  return graph.Op("ArgMax", {value}, {IntAttribute("axis", -1), IntAttribute("keepdims", 0)});
}

// Adds a float32 scalar: the number of positions at which a and b are equal.
std::string CountEqual(const std::string& a, const std::string& b, GraphBuilder& graph) {
  const std::string equal = CastTo(DType::kFloat32, graph.Op("Equal", {a, b}), graph);
  return graph.Op("ReduceSum", {equal}, {IntAttribute("keepdims", 0)});
}

// Adds Keras's label smoothing: y * (1 - s) + s / classes.
std::string Smooth(const LossSpec& loss, const std::string& y, int64_t classes,
                   GraphBuilder& graph) {
  const std::string keep =
      graph.Constant("loss/keep", Tensor::Scalar(static_cast<float>(1 - loss.label_smoothing)));
  const std::string share = graph.Constant(
      "loss/share",
      Tensor::Scalar(static_cast<float>(loss.label_smoothing / static_cast<double>(classes))));
  return graph.Op("Add", {graph.Op("Mul", {y, keep}), share});
}

}  // namespace

absl::Status CheckMetrics(const CompileSpec& compile) {
  // A loss on class numbers excludes categorical accuracy; a loss on one-hot rows, the sparse kind.
  const MetricKind wrong = IsSparse(compile.loss) ? MetricKind::kCategoricalAccuracy
                                                  : MetricKind::kSparseCategoricalAccuracy;
  for (const MetricSpec& metric : compile.metrics) {
    if (metric.kind != wrong) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "compile.metrics: '", metric.name, "' does not fit the labels of '",
        LossName(compile.loss.kind), "'; use 'accuracy', which is resolved by the loss"));
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const CompileSpec& compile, const Shape& output,
                         const proto::ComponentSpec& y) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(y.dtype()));
  const std::string loss(LossName(compile.loss.kind));
  const std::string type = absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(y.dims(), ","), "]");
  if (output.rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("compile.loss '", loss, "' needs one score per class, but the model gives ",
                     output.ToString(), " per example; end it with Dense, or put Flatten before"));
  }
  // Metrics read the same labels as the loss, so the check of the loss's labels covers metrics too.
  if (IsSparse(compile.loss) && !HasLabels(y)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compile.loss '", loss, "' needs one integer label per example, but labels are ", type,
        "; use 'categorical_crossentropy' if they are one-hot, and leave CategoryEncoding out of "
        "data.pipeline if they are integers in the file"));
  }
  if (!IsSparse(compile.loss) && (y.dims_size() != 2 || y.dims(1) != output.dim(0))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compile.loss '", loss, "' needs labels [N,", output.dim(0), "], but they are ", type,
        "; put CategoryEncoding with num_tokens ", output.dim(0),
        " into data.pipeline, change the last layer's units, or use "
        "'sparse_categorical_crossentropy'"));
  }
  return CheckMetrics(compile);
}

bool TakesClasses(const LossSpec& loss) { return IsSparse(loss); }

std::string AddLoss(const LossSpec& loss, const LayerValue& output, const std::string& y,
                    DType y_dtype, int64_t classes, GraphBuilder& graph) {
  graph.SetNamePrefix("loss/");
  // The loss is more exact if it is computed from the input of a final softmax or sigmoid.
  const bool from_logits = loss.from_logits || !output.logits.empty();
  const std::string prediction = output.logits.empty() ? output.value : output.logits;
  const onnx::AttributeProto logits_attribute = IntAttribute("from_logits", from_logits ? 1 : 0);
  if (IsSparse(loss)) {
    // The operator SparseCategoricalCrossentropy does not take int8 labels.
    const std::string labels = y_dtype == DType::kInt8 ? CastTo(DType::kInt64, y, graph) : y;
    return graph.Op("SparseCategoricalCrossentropy", {labels, prediction}, {logits_attribute},
                    kCohortDomain);
  }
  std::string labels = y_dtype == DType::kFloat32 ? y : CastTo(DType::kFloat32, y, graph);
  if (loss.label_smoothing > 0) labels = Smooth(loss, labels, classes, graph);
  return graph.Op("CategoricalCrossentropy", {labels, prediction},
                  {IntAttribute("axis", -1), logits_attribute}, kCohortDomain);
}

std::vector<std::string> AddCounts(const CompileSpec& compile, const LayerValue& output,
                                   const std::string& y, DType y_dtype, GraphBuilder& graph) {
  graph.SetNamePrefix("metrics/");
  // Softmax and sigmoid keep the order of the scores, so the best class is the same in the logits.
  const std::string predicted = ArgMax(output.logits.empty() ? output.value : output.logits, graph);
  // Counts the examples: each predicted class equals itself. ONNX's operators have no cheaper way
  // to count a symbolic batch.
  std::vector<std::string> sums = {CountEqual(predicted, predicted, graph)};
  if (compile.metrics.empty()) return sums;
  std::string labels = y;
  if (!IsSparse(compile.loss)) {
    // The class of a one-hot row is the position of its largest element.
    labels = ArgMax(y, graph);
  } else if (y_dtype != DType::kInt64) {
    labels = CastTo(DType::kInt64, y, graph);
  }
  // Every known metric counts the examples whose class is right.
  for (size_t i = 0; i < compile.metrics.size(); ++i) {
    sums.push_back(CountEqual(predicted, labels, graph));
  }
  return sums;
}

}  // namespace cohort
