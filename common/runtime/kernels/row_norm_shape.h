#pragma once

// Shapes and attributes of the normalizations that take mean and variance of a part of one example:
// LayerNormalization, InstanceNormalization and GroupNormalization, for all backends. A row is a
// run of elements in memory with statistics of its own; its elements may differ in their scale and
// bias.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct LayerNormParameters {
  int64_t axis = -1;  // the first axis of a row
  float epsilon = 1e-5f;
};
LayerNormParameters ParseLayerNorm(AttributeReader& reader);
LayerNormParameters ParseLayerNormGrad(AttributeReader& reader);

struct GroupNormParameters {
  int64_t groups = 0;  // 0: as many as there are channels
  float epsilon = 1e-5f;
};
GroupNormParameters ParseInstanceNorm(AttributeReader& reader);
GroupNormParameters ParseGroupNorm(AttributeReader& reader);

struct RowNormShape {
  int64_t rows = 0;
  int64_t size = 0;    // elements of a row
  int64_t groups = 1;  // rows of one example, whose scales differ
  int64_t inner = 1;   // neighbouring elements of a row that share one scale
  Shape statistics;    // the shape of the mean of each row

  // Returns the number of scales of a row.
  int64_t RowScales() const { return inner == 0 ? 0 : size / inner; }
  // Returns the position of a row's first scale.
  int64_t FirstScale(int64_t row) const { return row % groups * RowScales(); }
};
// Computes the shape of LayerNormalization, which needs a scale, and perhaps a bias, of the shape
// of a row. Errors: INVALID_ARGUMENT naming the axis, or the shape or type that does not fit.
absl::StatusOr<RowNormShape> ResolveLayerNorm(const Tensor& x, absl::Span<const Tensor> per_element,
                                              const LayerNormParameters& parameters);
// Computes the shape of the normalization of groups of channels over x [batch, channels, ...],
// which needs a scale, and perhaps a bias, for each channel. Errors: INVALID_ARGUMENT for groups
// that do not divide the channels, or a shape or type that does not fit.
absl::StatusOr<RowNormShape> ResolveGroupNorm(const Tensor& x, absl::Span<const Tensor> per_channel,
                                              const GroupNormParameters& parameters);
// Checks the mean and the inverse standard deviation that LayerNormalization has computed, which
// its gradient may lack. Errors: INVALID_ARGUMENT for one of them alone, for another type than
// float32 or for another shape than that of the statistics.
absl::Status CheckStatistics(const Tensor& mean, const Tensor& rate, const RowNormShape& shape);

}  // namespace cohort
