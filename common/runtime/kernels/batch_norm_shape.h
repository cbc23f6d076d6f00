#pragma once

// Shapes and attributes of BatchNormalization. An image is seen as [outer, channels, inner] around
// axis 1. A channel's statistics are over all its `count` elements in the batch.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct BatchNormParameters {
  float epsilon = 1e-5f;
  // The share of its old value that a running mean or variance keeps in each step.
  float momentum = 0.9f;
  bool training = false;
};
BatchNormParameters ParseBatchNorm(AttributeReader& reader);
BatchNormParameters ParseBatchNormGrad(AttributeReader& reader);

struct BatchNormShape {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t count = 1;  // number of elements of one channel in the batch, outer * inner

  int64_t At(int64_t outer_at, int64_t channel) const {
    return (outer_at * channels + channel) * inner;
  }
};
// Checks x and the inputs `per_channel`, which have one element for each channel; inputs without
// value are skipped. Returns the shape of x as [outer, channels, inner]. Errors: INVALID_ARGUMENT
// if the rank of x is below 2, and if an input has another type than x or another shape than
// [channels].
absl::StatusOr<BatchNormShape> ResolveBatchNorm(const Tensor& x,
                                                absl::Span<const Tensor> per_channel);

// Checks the inputs of BatchNormalization, including scale, bias, mean and variance.
absl::StatusOr<BatchNormShape> ResolveBatchNorm(const KernelContext& context);
// Checks the inputs of BatchNormalizationGrad (dy, x, scale, mean?, variance?). Mean and variance
// are required unless training_mode is set.
absl::StatusOr<BatchNormShape> ResolveBatchNormGrad(const KernelContext& context,
                                                    const BatchNormParameters& parameters);

}  // namespace cohort
