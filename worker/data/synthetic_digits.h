#pragma once

// A digit data set that needs no file. Image i of a seed is a digit drawn as a few strokes, with
// its own size, place, slant, pen width, brightness and noise. Image and label depend on (seed, i)
// alone, so the first n images of a larger set are the set of n images. Labels are drawn evenly at
// random.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

inline constexpr int kDigitSide = 28;
inline constexpr int64_t kSyntheticDigitsMax = 1 << 20;

struct DigitSet {
  Tensor images;  // uint8[count,28,28] pixels; 0 is the background
  Tensor labels;  // uint8[count] digits
};

struct DigitSetOptions {
  uint64_t seed = 0;
  int64_t count = 0;
};

// Draws the images and labels of a digit set. Errors: INVALID_ARGUMENT for a count outside [0,
// kSyntheticDigitsMax].
absl::StatusOr<DigitSet> MakeSyntheticDigits(const DigitSetOptions& options);

}  // namespace cohort
