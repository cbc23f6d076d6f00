#include "coordinator/model/image_layer_nodes.h"

#include <utility>
#include <vector>

#include "coordinator/model/batch_norm_nodes.h"
#include "coordinator/model/image_layer_shapes.h"

namespace cohort {
namespace {

// Returns the image in ONNX's order, [N,channels,rows,columns].
std::string ChannelsFirst(const ModelOutput& input, GraphBuilder& graph) {
  if (input.channels_first) return input.value;
  return graph.Op("Transpose", {input.value}, {IntsAttribute("perm", {0, 3, 1, 2})});
}

std::string ReshapeTo(const std::string& value, std::vector<int64_t> dims, GraphBuilder& graph) {
  const auto rank = static_cast<int64_t>(dims.size());
  return graph.Op(
      "Reshape",
      {value, graph.Constant("shape", Tensor::FromVector<int64_t>(std::move(dims), {rank}))});
}

// Returns ONNX's pads for Keras's padding: first the pads before rows and columns, then the pads
// after them.
std::vector<int64_t> Pads(const Shape& image, const Extents& extents, const Extents& strides,
                          bool same) {
  // Padding "valid" adds nothing to an image.
  if (!same) return {0, 0, 0, 0};
  const SamePadding rows = PadSame(image.dim(0), extents[0], strides[0]);
  const SamePadding columns = PadSame(image.dim(1), extents[1], strides[1]);
  return {rows.before, columns.before, rows.behind, columns.behind};
}

}  // namespace

// Adds a convolution. The kernel variable has Keras's order, [rows, columns, inputs, outputs], so
// that checkpoints can be exchanged with Keras.
ModelOutput AddNodes(const Conv2DSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  GraphBuilder& graph = target.graph;
  const std::string x = ChannelsFirst(inputs.values[0], graph);
  const std::string kernel =
      graph.Op("Transpose", {layer.name + "/kernel"}, {IntsAttribute("perm", {3, 2, 0, 1})});
  // A dilated kernel covers (size - 1) * dilation + 1 positions.
  Extents extents = {};
  for (size_t i = 0; i < 2; ++i) {
    extents[i] = (layer.kernel_size[i] - 1) * layer.dilation_rate[i] + 1;
  }
  std::vector<std::string> operands = {x, kernel};
  if (layer.use_bias) operands.push_back(layer.name + "/bias");
  const std::string y = graph.Op(
      "Conv", operands,
      {IntsAttribute("kernel_shape", layer.kernel_size), IntsAttribute("strides", layer.strides),
       IntsAttribute("dilations", layer.dilation_rate),
       IntsAttribute("pads", Pads(inputs.first_shape, extents, layer.strides, layer.same_padding)),
       IntAttribute("group", layer.groups)});
  return {y, "", true};
}

ModelOutput AddNodes(const Pooling2DSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  GraphBuilder& graph = target.graph;
  const std::string x = ChannelsFirst(inputs.values[0], graph);
  const std::string y = graph.Op(
      layer.kind == PoolKind::kMax ? "MaxPool" : "AveragePool", {x},
      {IntsAttribute("kernel_shape", layer.pool_size), IntsAttribute("strides", layer.strides),
       IntsAttribute(
           "pads", Pads(inputs.first_shape, layer.pool_size, layer.strides, layer.same_padding))});
  return {y, "", true};
}

ModelOutput AddNodes(const GlobalAveragePooling2DSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  GraphBuilder& graph = target.graph;
  const std::string y = graph.Op("GlobalAveragePool", {ChannelsFirst(inputs.values[0], graph)});
  if (layer.keepdims) return {y, "", true};
  // Without rows and columns the order of the elements is the same in Keras and ONNX.
  return {graph.Op("Flatten", {y}, {IntAttribute("axis", 1)}), ""};
}

// Adds a BatchNormalization, which needs the channels at axis 1. Examples that are not images are
// reshaped to rows of channels.
ModelOutput AddNodes(const BatchNormalizationSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  GraphBuilder& graph = target.graph;
  const Shape& shape = inputs.first_shape;
  const int64_t channels = shape.dim(shape.rank() - 1);
  if (shape.rank() == 3) {
    return {AddBatchNorm(layer, {ChannelsFirst(inputs.values[0], graph), channels, 4}, target), "",
            true};
  }
  const std::string& x = inputs.values[0].value;
  if (shape.rank() == 1) return {AddBatchNorm(layer, {x, channels, 2}, target), ""};
  // The statistics of a channel do not depend on the other axes, so these join the batch.
  const std::string rows = ReshapeTo(x, {-1, channels}, graph);
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return {ReshapeTo(AddBatchNorm(layer, {rows, channels, 2}, target), std::move(dims), graph), ""};
}

ModelOutput AddNodes(const ReshapeSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  const ModelOutput x = ChannelsLast(inputs.values[0], target.graph);
  // LayerOutputShape has accepted this input before, so OutputShape gives no error.
  const Shape shape = *OutputShape(layer, inputs.first_shape);
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return {ReshapeTo(x.value, std::move(dims), target.graph), ""};
}

}  // namespace cohort
