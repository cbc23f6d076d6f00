#include "common/runtime/kernels/loss_support.h"

namespace cohort {

AxisParameters ParseLastAxis(AttributeReader& reader) { return {reader.Int("axis", -1)}; }

OnnxLossParameters ParseOnnxLoss(AttributeReader& reader) {
  OnnxLossParameters parameters;
  const std::string reduction = reader.String("reduction", "mean");
  if (reduction == "none") {
    parameters.reduction = Reduction::kNone;
  } else if (reduction == "sum") {
    parameters.reduction = Reduction::kSum;
  } else if (reduction != "mean") {
    reader.Fail(absl::StrCat("unknown reduction '", reduction, "'; use none, mean or sum"));
  }
  parameters.has_ignore_index = reader.Has("ignore_index");
  parameters.ignore_index = reader.Int("ignore_index", 0);
  return parameters;
}

KerasLossParameters ParseKerasLoss(AttributeReader& reader) {
  KerasLossParameters parameters;
  parameters.axis = reader.Int("axis", -1);
  parameters.from_logits = reader.Flag("from_logits", false);
  return parameters;
}

absl::StatusOr<std::vector<int64_t>> ReadLabels(const Tensor& labels, const LabelRange& range) {
  std::vector<int64_t> values;
  RETURN_IF_ERROR(DispatchTypes(LabelTypes{}, labels, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    values.assign(labels.span<T>().begin(), labels.span<T>().end());
    return absl::OkStatus();
  }));
  // Labels are checked before any kernel uses them: a label outside the range would make kernels
  // read memory outside the tensor.
  for (size_t i = 0; i < values.size(); ++i) {
    const bool ignored = range.has_ignored && values[i] == range.ignored;
    if (ignored || (values[i] >= 0 && values[i] < range.classes)) continue;
    return absl::InvalidArgumentError(absl::StrCat("label ", values[i], " at position ", i,
                                                   " is not in [0, ", range.classes, ")"));
  }
  return values;
}

Shape WithoutAxis(const Shape& shape, int axis) {
  absl::InlinedVector<int64_t, 4> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + axis);
  return Shape(absl::MakeConstSpan(dims));
}

absl::StatusOr<LossView> ViewOfLoss(const Tensor& prediction, int64_t axis) {
  ASSIGN_OR_RETURN(const int normal, NormalAxis(axis, prediction.shape().rank()));
  LossView result = {ViewAroundAxis(prediction.shape(), normal),
                     WithoutAxis(prediction.shape(), normal)};
  if (result.view.size == 0) return absl::InvalidArgumentError("predictions have no classes");
  return result;
}

absl::Status CheckDenseLabels(const Tensor& truth, const Tensor& prediction) {
  RETURN_IF_ERROR(RequireSameType(truth, prediction));
  return RequireSameShape(truth, prediction);
}

absl::StatusOr<std::vector<int64_t>> ReadSparseLabels(const Tensor& truth, const LossView& view) {
  if (truth.shape() != view.loss) {
    return absl::InvalidArgumentError(absl::StrCat(
        "labels ", truth.TypeString(), " where the loss has shape ", view.loss.ToString()));
  }
  return ReadLabels(truth, {view.view.size});
}

absl::Status CheckLossGradient(const Tensor& dloss, const Tensor& prediction,
                               const LossView& view) {
  RETURN_IF_ERROR(RequireSameType(dloss, prediction));
  if (dloss.shape() == view.loss) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient ", dloss.TypeString(), " where the loss has shape ", view.loss.ToString()));
}

}  // namespace cohort
