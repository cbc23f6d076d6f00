#pragma once

// Resizes images as tf.image.resize (TensorFlow 2) does without antialiasing, to the bit.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

enum class ResizeMethod {
  kBilinear,
  kNearest,
  kBicubic,  // Keys's cubic with a = -0.5, its weights in 1024 steps
};

// Resizes an image uint8 or float32 [height, width, channels] to [rows, columns, channels]. The
// result is float32, but for kNearest, which keeps the type. Errors: INVALID_ARGUMENT for a tensor
// of another type or shape, an image without pixels, and a size that is not positive.
absl::StatusOr<Tensor> ResizeImage(const Tensor& image, int64_t rows, int64_t columns,
                                   ResizeMethod method);

// Rounds pixels to uint8, half to even, and into 0 to 255: what Keras 3's Resizing does to what it
// makes of uint8.
Tensor RoundToPixels(const Tensor& image);

// Returns the part of an image that begins at (row, column). The part must lie in the image.
Tensor CropImage(const Tensor& image, int64_t row, int64_t column, int64_t rows, int64_t columns);

}  // namespace cohort
