#pragma once

// Shapes and attributes of ConvTranspose, for all backends. ConvTranspose is the gradient of a
// convolution with respect to its image: it computes the image's gradient y from x, which takes the
// place of the gradient of the convolution's result. So the shape of a ConvTranspose is the shape
// of that convolution, whose image has the shape of y and whose result has the shape of x.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

struct ConvTransposeParameters {
  ConvParameters conv;
  std::vector<int64_t> output_padding;  // positions added behind each axis of y
  std::vector<int64_t> output_shape;    // the extents of y's axes after the channels
};
ConvTransposeParameters ParseConvTranspose(AttributeReader& reader);

struct ConvTransposeShape {
  ConvShape conv;
  Shape y;
};
// Computes the shape of a ConvTranspose over x [batch, channels, ...] with w [channels, channels of
// a group of y, ...]. Errors: INVALID_ARGUMENT naming the shapes or the attribute that do not fit.
absl::StatusOr<ConvTransposeShape> ResolveConvTranspose(const Shape& x, const Shape& w,
                                                        const ConvTransposeParameters& parameters);
// Computes the shape of the ConvTranspose to which a gradient operator belongs. `dy` must have the
// shape of the operator's result.
absl::StatusOr<ConvTransposeShape> ResolveConvTransposeGrad(
    const Tensor& dy, const Shape& x, const Shape& w, const ConvTransposeParameters& parameters);
// Checks the optional bias of a ConvTranspose. Errors: INVALID_ARGUMENT for a bias that does not
// have one element for each channel of the result.
absl::Status CheckConvTransposeBias(const Tensor& w, const Tensor& bias,
                                    const ConvTransposeShape& shape);

}  // namespace cohort
