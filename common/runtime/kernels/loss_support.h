#pragma once

// Shapes and attributes of the loss operators, shared by both backends. Scores are seen as [outer,
// classes, inner]; there is one label per (outer, inner).

#include <cstdint>
#include <string>
#include <vector>

#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// softmax family
struct AxisParameters {
  int64_t axis = -1;
};
AxisParameters ParseLastAxis(AttributeReader& reader);

// ONNX SoftmaxCrossEntropyLoss.
enum class Reduction { kNone, kMean, kSum };
struct OnnxLossParameters {
  Reduction reduction = Reduction::kMean;
  bool has_ignore_index = false;
  int64_t ignore_index = 0;
};
OnnxLossParameters ParseOnnxLoss(AttributeReader& reader);

// Keras's cross-entropies.
struct KerasLossParameters {
  int64_t axis = -1;
  bool from_logits = false;
};
KerasLossParameters ParseKerasLoss(AttributeReader& reader);
inline constexpr double kKerasEpsilon = 1e-7;

// Labels as int64, each in [0, classes) or equal to the ignored value. Errors: INVALID_ARGUMENT
// naming the label and its place.
struct LabelRange {
  int64_t classes = 0;
  bool has_ignored = false;
  int64_t ignored = 0;
};
absl::StatusOr<std::vector<int64_t>> ReadLabels(const Tensor& labels, const LabelRange& range);

// Returns the shape without one axis.
Shape WithoutAxis(const Shape& shape, int axis);

}  // namespace cohort
