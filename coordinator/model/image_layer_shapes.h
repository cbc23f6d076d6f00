#pragma once

// Shapes and variables of the layers of image models (layer_shapes.h).

#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/shape.h"
#include "coordinator/job/image_layer_spec.h"
#include "coordinator/model/variable_spec.h"

namespace cohort {

// Upper bound of the number of elements of one example or one variable.
inline constexpr int64_t kElementsMax = int64_t{1} << 31;

absl::Status WrongInput(absl::string_view layer, const Shape& shape, absl::string_view need);

absl::StatusOr<Shape> OutputShape(const Conv2DSpec& layer, const Shape& input);
absl::StatusOr<Shape> OutputShape(const Pooling2DSpec& layer, const Shape& input);
absl::StatusOr<Shape> OutputShape(const GlobalAveragePooling2DSpec& layer, const Shape& input);
absl::StatusOr<Shape> OutputShape(const BatchNormalizationSpec& layer, const Shape& input);
absl::StatusOr<Shape> OutputShape(const ReshapeSpec& layer, const Shape& input);

std::vector<VariableSpec> Variables(const Conv2DSpec& layer, const Shape& input, uint64_t seed);
std::vector<VariableSpec> Variables(const BatchNormalizationSpec& layer, const Shape& input,
                                    uint64_t seed);

// The padding of Keras's "same" before and after `size` positions, for a window that covers
// `extent` positions. If the total padding is odd, the extra position comes after.
struct SamePadding {
  int64_t before = 0;
  int64_t behind = 0;
};
SamePadding PadSame(int64_t size, int64_t extent, int64_t stride);

}  // namespace cohort
