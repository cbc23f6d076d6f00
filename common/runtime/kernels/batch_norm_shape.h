#pragma once

// BatchNormalization's shapes and attributes. An image is seen as [outer, channels, inner] around
// axis 1; a channel's statistics are over all its `count` elements of the batch.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct BatchNormParameters {
  float epsilon = 1e-5f;
  float momentum = 0.9f;  // what the running statistics keep
  bool training = false;
};
BatchNormParameters ParseBatchNorm(AttributeReader& reader);
BatchNormParameters ParseBatchNormGrad(AttributeReader& reader);

struct BatchNormShape {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t count = 1;  // outer * inner

  int64_t At(int64_t outer_at, int64_t channel) const {
    return (outer_at * channels + channel) * inner;
  }
};
// Checks x and the inputs `per_channel`, which have one element for each channel; those without
// value are left out. Errors: INVALID_ARGUMENT for a rank below 2, another type than x's or another
// shape.
absl::StatusOr<BatchNormShape> ResolveBatchNorm(const Tensor& x,
                                                absl::Span<const Tensor> per_channel);

// Checks the inputs of BatchNormalization: scale, bias, mean and variance are there.
absl::StatusOr<BatchNormShape> ResolveBatchNorm(const KernelContext& context);
// Checks the inputs of BatchNormalizationGrad (dy, x, scale, mean?, variance?): the last two are
// there if training_mode is not.
absl::StatusOr<BatchNormShape> ResolveBatchNormGrad(const KernelContext& context,
                                                    const BatchNormParameters& parameters);

}  // namespace cohort
