#pragma once

// A data set of handwritten-looking digits that needs no file. Image i of a seed is a digit drawn
// with a few strokes, in its own size, place, slant, pen width, brightness and noise. Image and
// label depend on the seed and i alone, so the first n images of a larger set are the set of n
// images. All ten digits are equally likely.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

inline constexpr int kDigitSide = 28;
inline constexpr int64_t kSyntheticDigitsMax = 1 << 20;

struct DigitSet {
  Tensor images;  // uint8[count,28,28]: brightness of each pixel; 0 is black, the background
  Tensor labels;  // uint8[count]: the digit of each image
};

struct DigitSetOptions {
  uint64_t seed = 0;
  int64_t count = 0;
};

// Draws a set of images with their labels. Errors: INVALID_ARGUMENT for a count outside [0,
// kSyntheticDigitsMax].
absl::StatusOr<DigitSet> MakeSyntheticDigits(const DigitSetOptions& options);

}  // namespace cohort
