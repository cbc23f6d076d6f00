#include "common/runtime/kernels/cpu/norm_loops.h"

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/lane_sums.h"

namespace cohort {

COHORT_SIMD RowMoments MomentsOf(const float* row, int64_t size) {
  // The variance is computed from distances to the mean. The mean of the squares minus the square
  // of the mean would lose digits where the mean is large beside the deviation.
  RowMoments moments;
  const auto count = static_cast<double>(size);
  moments.mean = SumLine(size, [row](int64_t i) { return row[i]; }) / count;
  const float mean = static_cast<float>(moments.mean);
  moments.variance = SumLine(size,
                             [row, mean](int64_t i) {
                               const float off = row[i] - mean;
                               return off * off;
                             }) /
                     count;
  return moments;
}

COHORT_SIMD void NormalizeRow(const RowNorm& norm, const float* bias, const float* x, int64_t size,
                              float* y) {
  const float mean = norm.mean;
  const float rate = norm.rate;
  const float* const scale = norm.scale;
  // The loop without a bias is a loop of its own, so that neither loop has a branch inside.
  if (bias == nullptr) {
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) y[i] = (x[i] - mean) * rate * scale[i];
    return;
  }
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) y[i] = (x[i] - mean) * rate * scale[i] + bias[i];
}

COHORT_SIMD void AddScaleGradients(const RowNorm& norm, const RowPair& row, int64_t size,
                                   const ScaleSums& sums) {
  const float mean = norm.mean;
  const float rate = norm.rate;
  // The members are copied to locals: a store of a float may change a member of the
  // structs, for all that the compiler knows, which keeps a loop from being vectorised.
  const float* const dy = row.dy;
  const float* const x = row.x;
  float* const scale = sums.scale;
  float* const bias = sums.bias;
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) {
    scale[i] += dy[i] * ((x[i] - mean) * rate);
    bias[i] += dy[i];
  }
}

COHORT_SIMD void NormalizeRowGradient(const RowNorm& norm, const RowPair& row, int64_t size,
                                      float* dx) {
  const float mean = norm.mean;
  const float rate = norm.rate;
  const float* const scale = norm.scale;
  const float* const dy = row.dy;
  const float* const x = row.x;
  // g = dy * scale is computed twice, for its mean and for that of g * z, because memory for a row
  // of g would cost more than the product.
  const double sum = SumLine(size, [=](int64_t i) { return dy[i] * scale[i]; });
  const double product =
      SumLine(size, [=](int64_t i) { return dy[i] * scale[i] * ((x[i] - mean) * rate); });
  const auto share = static_cast<float>(sum / static_cast<double>(size));
  const auto slope = static_cast<float>(product / static_cast<double>(size));
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) {
    dx[i] = rate * (dy[i] * scale[i] - share - (x[i] - mean) * rate * slope);
  }
}

}  // namespace cohort
