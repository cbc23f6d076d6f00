#pragma once

// Loops of LayerNormalization over the rows of a matrix, in float32, compiled for several
// instruction sets (common/runtime/kernel/simd.h). Pointers do not overlap.

#include <cstdint>

namespace cohort {

struct RowMoments {
  double mean = 0;
  double variance = 0;  // the population's variance
};
// Computes mean and variance of a row in two passes.
RowMoments MomentsOf(const float* row, int64_t size);

// The numbers with which a row is normalized: z = (x - mean) * rate. `scale` has an element for
// each element of the row.
struct RowNorm {
  float mean;
  float rate;
  const float* scale;
};
// Writes z * scale + bias; a null bias counts as zeros.
void NormalizeRow(const RowNorm& norm, const float* bias, const float* x, int64_t size, float* y);

// A row of dy and the row of x to which it belongs.
struct RowPair {
  const float* dy;
  const float* x;
};
// Adds dy * z and dy to the sums of each element, which are the gradients of scale and bias over
// several rows.
struct ScaleSums {
  float* scale;
  float* bias;
};
void AddScaleGradients(const RowNorm& norm, const RowPair& row, int64_t size,
                       const ScaleSums& sums);
// Writes the gradient of a row, rate * (g - mean(g) - z * mean(g * z)) with g = dy * scale.
void NormalizeRowGradient(const RowNorm& norm, const RowPair& row, int64_t size, float* dx);

}  // namespace cohort
