#include "coordinator/model/image_layer_shapes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/model/initializer.h"

namespace cohort {
namespace {

// The window of a layer along rows or along columns.
struct SlidingWindow {
  int64_t extent = 1;
  int64_t stride = 1;
  bool same_padding = false;

  // Returns how many positions the window has over `size` elements, by Keras's formulas.
  int64_t Positions(int64_t size) const {
    return same_padding ? (size + stride - 1) / stride : (size - extent) / stride + 1;
  }
};

absl::Status CheckImage(const std::string& layer, const Shape& input) {
  if (input.rank() == 3) return absl::OkStatus();
  return WrongInput(layer, input,
                    "it needs [rows, columns, channels]; a Reshape layer gives images without "
                    "channels one, with target_shape [rows, columns, 1]");
}

// Returns [rows, columns, channels] of the output of the windows.
absl::StatusOr<Shape> Slide(const std::string& layer, const Shape& input,
                            const std::array<SlidingWindow, 2>& windows, int64_t channels) {
  std::vector<int64_t> dims;
  int64_t elements = channels;
  for (size_t i = 0; i < 2; ++i) {
    const SlidingWindow& window = windows[i];
    const int64_t size = input.dim(static_cast<int>(i));
    if (!window.same_padding && window.extent > size) {
      return WrongInput(layer, input,
                        absl::StrCat("its window of ", window.extent, " does not fit into ", size,
                                     i == 0 ? " rows" : " columns", "; padding 'same' makes room"));
    }
    dims.push_back(window.Positions(size));
    // The check divides the limit, because the product of the dimensions might overflow.
    if (elements > kElementsMax / dims.back()) {
      return WrongInput(layer, input, "it would give more than 2^31 elements");
    }
    elements *= dims.back();
  }
  dims.push_back(channels);
  return Shape(dims);
}

}  // namespace

absl::Status WrongInput(absl::string_view layer, const Shape& shape, absl::string_view need) {
  return absl::InvalidArgumentError(absl::StrCat("layer '", layer, "' is given examples of shape ",
                                                 shape.ToString(), "; ", need));
}

SamePadding PadSame(int64_t size, int64_t extent, int64_t stride) {
  const int64_t positions = (size + stride - 1) / stride;
  // The last window may end after the last element; its overhang is the padding.
  const int64_t pads = std::max<int64_t>((positions - 1) * stride + extent - size, 0);
  return {pads / 2, pads - pads / 2};
}

absl::StatusOr<Shape> OutputShape(const Conv2DSpec& layer, const Shape& input) {
  RETURN_IF_ERROR(CheckImage(layer.name, input));
  const int64_t channels = input.dim(2);
  if (channels % layer.groups != 0) {
    return WrongInput(layer.name, input,
                      absl::StrCat(layer.groups, " groups do not divide their channels"));
  }
  std::array<SlidingWindow, 2> windows;
  int64_t weights = channels / layer.groups * layer.filters;
  for (size_t i = 0; i < 2; ++i) {
    windows[i] = {(layer.kernel_size[i] - 1) * layer.dilation_rate[i] + 1, layer.strides[i],
                  layer.same_padding};
    // The kernel has weights = rows * columns * inputs per group * outputs elements.
    if (weights > kElementsMax / layer.kernel_size[i]) {
      return WrongInput(layer.name, input, "its kernel would have more than 2^31 elements");
    }
    weights *= layer.kernel_size[i];
  }
  return Slide(layer.name, input, windows, layer.filters);
}

absl::StatusOr<Shape> OutputShape(const Pooling2DSpec& layer, const Shape& input) {
  RETURN_IF_ERROR(CheckImage(layer.name, input));
  std::array<SlidingWindow, 2> windows;
  for (size_t i = 0; i < 2; ++i) {
    windows[i] = {layer.pool_size[i], layer.strides[i], layer.same_padding};
  }
  return Slide(layer.name, input, windows, input.dim(2));
}

absl::StatusOr<Shape> OutputShape(const GlobalAveragePooling2DSpec& layer, const Shape& input) {
  RETURN_IF_ERROR(CheckImage(layer.name, input));
  if (layer.keepdims) return Shape({1, 1, input.dim(2)});
  return Shape({input.dim(2)});
}

absl::StatusOr<Shape> OutputShape(const BatchNormalizationSpec& layer, const Shape& input) {
  const int rank = input.rank();
  if (rank < 1) {
    return WrongInput(layer.name, input, "it needs at least one dimension beside the batch");
  }
  // Keras can normalize along any axis, but the nodes of this layer need the channels last.
  if (layer.axis == -1 || layer.axis == rank) return input;
  return WrongInput(layer.name, input,
                    absl::StrCat("its axis ", layer.axis, " is not their last, -1 or ", rank));
}

absl::StatusOr<Shape> OutputShape(const ReshapeSpec& layer, const Shape& input) {
  std::vector<int64_t> dims = layer.target_shape;
  const auto open = std::find(dims.begin(), dims.end(), -1);
  int64_t known = 1;
  bool fits = true;
  for (const int64_t dim : dims) {
    if (dim > 0) fits = fits && !__builtin_mul_overflow(known, dim, &known);
  }
  const int64_t elements = input.num_elements();
  // `known` is the product of all dimensions except the one that the target shape leaves open.
  fits = fits && elements % known == 0;
  if (fits && open != dims.end()) *open = elements / known;
  if (fits && Shape(dims).num_elements() == elements) return Shape(dims);
  return WrongInput(layer.name, input,
                    absl::StrCat("its target_shape does not hold their ", elements, " elements"));
}

std::vector<VariableSpec> Variables(const Conv2DSpec& layer, const Shape& input, uint64_t seed) {
  std::vector<VariableSpec> variables;
  const Shape kernel(
      {layer.kernel_size[0], layer.kernel_size[1], input.dim(2) / layer.groups, layer.filters});
  variables.push_back(MakeVariable(layer.name + "/kernel", kernel, layer.kernel_initializer, seed));
  if (layer.use_bias) {
    variables.push_back(
        MakeVariable(layer.name + "/bias", Shape({layer.filters}), layer.bias_initializer, seed));
  }
  return variables;
}

std::vector<VariableSpec> Variables(const BatchNormalizationSpec& layer, const Shape& input,
                                    uint64_t seed) {
  const Shape channels({input.dim(input.rank() - 1)});
  std::vector<VariableSpec> variables;
  const auto add = [&](const char* name, const KerasInitializerSpec& initializer) {
    variables.push_back(MakeVariable(layer.name + name, channels, initializer, seed));
  };
  // Keras's order: gamma and beta are trained, the moving statistics are not.
  if (layer.scale) add("/gamma", layer.gamma_initializer);
  if (layer.center) add("/beta", layer.beta_initializer);
  add("/moving_mean", layer.moving_mean_initializer);
  add("/moving_variance", layer.moving_variance_initializer);
  for (size_t i = variables.size() - 2; i < variables.size(); ++i) {
    variables[i].trainable = false;
    variables[i].aggregation = proto::AGGREGATION_MEAN;  // Keras averages moving statistics
  }
  return variables;
}

}  // namespace cohort
