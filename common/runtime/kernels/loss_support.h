#pragma once

// Shapes and attributes of the loss operators, for all backends. Scores are seen as [outer,
// classes, inner]; there is one label for each pair (outer, inner).

#include <cstdint>
#include <string>
#include <vector>

#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// The attribute of the softmax operators.
struct AxisParameters {
  int64_t axis = -1;
};
AxisParameters ParseLastAxis(AttributeReader& reader);

// The attributes of ONNX's SoftmaxCrossEntropyLoss.
enum class Reduction { kNone, kMean, kSum };
struct OnnxLossParameters {
  Reduction reduction = Reduction::kMean;
  bool has_ignore_index = false;
  int64_t ignore_index = 0;
};
OnnxLossParameters ParseOnnxLoss(AttributeReader& reader);

// The attributes of Keras's cross-entropies.
struct KerasLossParameters {
  int64_t axis = -1;
  bool from_logits = false;
};
KerasLossParameters ParseKerasLoss(AttributeReader& reader);
inline constexpr double kKerasEpsilon = 1e-7;

// The range of labels that ReadLabels accepts: the numbers in [0, classes), and `ignored` if
// has_ignored is set. Errors of ReadLabels: INVALID_ARGUMENT naming the label and its position.
struct LabelRange {
  int64_t classes = 0;
  bool has_ignored = false;
  int64_t ignored = 0;
};
absl::StatusOr<std::vector<int64_t>> ReadLabels(const Tensor& labels, const LabelRange& range);

// Returns `shape` without its axis number `axis`.
Shape WithoutAxis(const Shape& shape, int axis);

// The predictions of one of Keras's cross-entropies, seen as [outer, classes, inner], and the shape
// of the loss. The categorical and the sparse loss and their gradients all use this view.
struct LossView {
  AxisView view;
  Shape loss;
};
// Returns the view of `prediction`, whose axis number `axis` is the class axis. Errors:
// INVALID_ARGUMENT if there are no classes, or if `prediction` does not have the axis.
absl::StatusOr<LossView> ViewOfLoss(const Tensor& prediction, int64_t axis);
// Checks the labels of categorical_crossentropy, which are a distribution over the classes for each
// example: they must have the type and the shape of the predictions. Errors: INVALID_ARGUMENT
// naming both types or shapes.
absl::Status CheckDenseLabels(const Tensor& truth, const Tensor& prediction);
// Reads the labels of sparse_categorical_crossentropy. Errors: those of ReadLabels, and
// INVALID_ARGUMENT for labels of another shape than the loss.
absl::StatusOr<std::vector<int64_t>> ReadSparseLabels(const Tensor& truth, const LossView& view);
// Checks that `dloss` has the type of the predictions and the shape of the loss. Errors:
// INVALID_ARGUMENT naming the type of `dloss` and the loss's shape.
absl::Status CheckLossGradient(const Tensor& dloss, const Tensor& prediction, const LossView& view);

}  // namespace cohort
