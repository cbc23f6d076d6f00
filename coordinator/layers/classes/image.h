#pragma once

// The common parts of layers on sequences, images and volumes: where the channels are, and how a
// window slides over the other axes. Sizes and extents are listed per axis, without batch and
// channels: steps; rows and columns; or depth, rows and columns.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/layer_target.h"
#include "coordinator/layers/nodes.h"

namespace cohort {

// The axes of an example. Keras's data_format decides whether the channels come last or first.
struct ImageLayout {
  size_t axes = 2;  // axes beside the channels
  bool channels_first = false;

  // Checks the number of dimensions. Errors: INVALID_ARGUMENT naming the layer.
  absl::Status Check(const std::string& layer, const Shape& shape) const;
  int64_t Channels(const Shape& shape) const;
  std::vector<int64_t> Sizes(const Shape& shape) const;
  // Returns the shape of an example. Errors: INVALID_ARGUMENT naming the layer if the example has
  // too many elements.
  absl::StatusOr<Shape> Example(const std::string& layer, const Shape& input,
                                const std::vector<int64_t>& sizes, int64_t channels) const;

  // Returns the value as [N,channels,...], and the value of a layer that computed in that order.
  std::string ToOnnx(const LayerValue& value, const Nodes& nodes) const;
  LayerValue FromOnnx(const std::string& value) const;
};

// The padding of Keras's "same" before and after `size` positions, for a window that covers
// `extent` positions. If the total padding is odd, the extra position comes after.
struct SamePadding {
  int64_t before = 0;
  int64_t behind = 0;
};
SamePadding PadSame(int64_t size, int64_t extent, int64_t stride);

// A window that slides along each axis.
struct SlidingWindow {
  std::vector<int64_t> extents;  // positions that the window covers, with its gaps
  std::vector<int64_t> strides;
  bool same_padding = false;  // true: Keras's "same"; false: "valid"

  // Returns how many positions the window has along each axis, by Keras's formulas. Errors:
  // INVALID_ARGUMENT naming the layer and the axis into which the window does not fit.
  absl::StatusOr<std::vector<int64_t>> Positions(const std::string& layer, const Shape& input,
                                                 const std::vector<int64_t>& sizes) const;
  // Returns ONNX's pads: first those before each axis, then those after it.
  std::vector<int64_t> Pads(const std::vector<int64_t>& sizes) const;
};

}  // namespace cohort
