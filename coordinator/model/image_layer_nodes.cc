#include "coordinator/model/image_layer_nodes.h"

#include <numeric>
#include <utility>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/program.h"
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
  // Padding "valid" adds no rows or columns to an image.
  if (!same) return {0, 0, 0, 0};
  const SamePadding rows = PadSame(image.dim(0), extents[0], strides[0]);
  const SamePadding columns = PadSame(image.dim(1), extents[1], strides[1]);
  return {rows.before, columns.before, rows.behind, columns.behind};
}

// Adds the nodes of one use of a BatchNormalization layer. Lives for one call. Thread-compatible.
class BatchNormNodes {
 public:
  BatchNormNodes(const BatchNormalizationSpec& layer, const ChannelledValue& x,
                 const LayerTarget& target)
      : layer_(layer),
        x_(x),
        graph_(target.graph),
        state_(target.state),
        mean_(layer.name + "/moving_mean"),
        variance_(layer.name + "/moving_variance") {}

  // Adds a normalization by the moving statistics.
  std::string Evaluate() {
    return graph_.Op("BatchNormalization", {x_.value, Gamma(), Beta(), Now(mean_), Now(variance_)},
                     {Epsilon()});
  }

  // Adds a normalization by the statistics of this replica's batch, and the new moving statistics.
  std::string Train() {
    const auto outputs =
        graph_.OpN("BatchNormalization", {x_.value, Gamma(), Beta(), Now(mean_), Now(variance_)}, 3,
                   {Epsilon(), FloatAttribute("momentum", static_cast<float>(layer_.momentum)),
                    IntAttribute("training_mode", 1)});
    state_[mean_] = outputs[1];
    state_[variance_] = outputs[2];
    return outputs[0];
  }

  // Adds a normalization by the batches of all replicas of the step. Replicas may have different
  // numbers of examples, so the sums, the sums of squares and the number of elements travel
  // together in one AllReduce.
  std::string TrainSynchronized() {
    const std::string axes = Ints("axes", AxesOfSums());
    const auto sum = [&](const std::string& value) {
      return graph_.Op("ReduceSum", {value, axes}, {IntAttribute("keepdims", 0)});
    };
    const std::string squares = graph_.Op("Mul", {x_.value, x_.value});
    const std::string all =
        graph_.Op("AllReduce",
                  {graph_.Op("Concat", {sum(x_.value), sum(squares), CountOfChannel()},
                             {IntAttribute("axis", 0)})},
                  {StringAttribute("reduction", "sum")}, kCohortDomain);
    const std::string count = Part(all, 2 * x_.channels, 1);
    const std::string mean = graph_.Op("Div", {Part(all, 0, x_.channels), count});
    const std::string mean_square = graph_.Op("Div", {Part(all, x_.channels, x_.channels), count});
    // The population variance is E[x^2] - E[x]^2.
    const std::string variance = graph_.Op("Sub", {mean_square, graph_.Op("Mul", {mean, mean})});
    Move(mean_, mean);
    Move(variance_, variance);
    return Normalize(mean, variance);
  }

 private:
  onnx::AttributeProto Epsilon() const {
    return FloatAttribute("epsilon", static_cast<float>(layer_.epsilon));
  }
  // If the layer has no gamma or beta, 1 or 0 takes its place, because ONNX's operator needs both.
  std::string Gamma() { return layer_.scale ? layer_.name + "/gamma" : Filled("scale", 1); }
  std::string Beta() { return layer_.center ? layer_.name + "/beta" : Filled("shift", 0); }

  // Returns the name of the variable's current value: the value that an earlier use of the layer in
  // the same step computed, if there is one.
  std::string Now(const std::string& variable) const {
    const auto found = state_.find(variable);
    return found == state_.end() ? variable : found->second;
  }

  std::string Filled(const char* name, float value) {
    return graph_.Constant(
        layer_.name + "/" + name,
        Tensor::FromVector(std::vector<float>(static_cast<size_t>(x_.channels), value),
                           {x_.channels}));
  }
  std::string Number(const char* name, double value) {
    return graph_.Constant(layer_.name + "/" + name, Tensor::Scalar(static_cast<float>(value)));
  }
  std::string Ints(const char* name, const std::vector<int64_t>& values) {
    return graph_.Constant(layer_.name + "/" + name,
                           Tensor::FromVector(values, {static_cast<int64_t>(values.size())}));
  }

  // Returns all axes except axis 1, the channels.
  std::vector<int64_t> AxesOfSums() const {
    std::vector<int64_t> axes(static_cast<size_t>(x_.rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;
    return axes;
  }

  // Returns the number of elements of one channel in this replica's batch, as float32[1].
  std::string CountOfChannel() {
    const std::string size = graph_.Op("Cast", {graph_.Op("Size", {x_.value})},
                                       {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))});
    const std::string count =
        graph_.Op("Div", {size, Number("channels", static_cast<double>(x_.channels))});
    return graph_.Op("Reshape", {count, Ints("one", {1})});
  }

  // Returns `count` elements of the vector `value`, from index `first` on.
  std::string Part(const std::string& value, int64_t first, int64_t count) {
    std::vector<int64_t> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return graph_.Op("Gather", {value, Ints("part", indices)}, {IntAttribute("axis", 0)});
  }

  // Moves the variable towards a value: variable * momentum + towards * (1 - momentum).
  void Move(const std::string& variable, const std::string& towards) {
    const std::string kept = graph_.Op("Mul", {Now(variable), Number("kept", layer_.momentum)});
    const std::string added = graph_.Op("Mul", {towards, Number("added", 1 - layer_.momentum)});
    state_[variable] = graph_.Op("Add", {kept, added});
  }

  // Computes x * factor + offset, with factor = gamma / sqrt(variance + epsilon) and offset = beta
  // - mean * factor.
  std::string Normalize(const std::string& mean, const std::string& variance) {
    const std::string root =
        graph_.Op("Sqrt", {graph_.Op("Add", {variance, Number("epsilon", layer_.epsilon)})});
    const std::string factor = graph_.Op("Div", {Gamma(), root});
    const std::string offset = graph_.Op("Sub", {Beta(), graph_.Op("Mul", {mean, factor})});
    return graph_.Op("Add", {graph_.Op("Mul", {x_.value, AsChannels(factor)}), AsChannels(offset)});
  }

  // Returns a vector of one number per channel, reshaped to broadcast over the axes of x after the
  // channels.
  std::string AsChannels(const std::string& value) {
    if (x_.rank == 2) return value;
    std::vector<int64_t> dims(static_cast<size_t>(x_.rank) - 1, 1);
    dims[0] = x_.channels;
    return graph_.Op("Reshape", {value, Ints("broadcast", dims)});
  }

  const BatchNormalizationSpec& layer_;
  const ChannelledValue& x_;
  GraphBuilder& graph_;
  StateValues& state_;
  const std::string mean_;
  const std::string variance_;
};

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
  // Global pooling leaves no rows and columns, so the elements have the same order in Keras and
  // ONNX.
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
  // A channel's statistics do not depend on the axes before the channels, so these axes are merged
  // with the batch.
  const std::string rows = ReshapeTo(x, {-1, channels}, graph);
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return {ReshapeTo(AddBatchNorm(layer, {rows, channels, 2}, target), std::move(dims), graph), ""};
}

ModelOutput AddNodes(const ReshapeSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target) {
  const ModelOutput x = ChannelsLast(inputs.values[0], target.graph);
  // LayerOutputShape has already accepted this input, so OutputShape returns no error.
  const Shape shape = *OutputShape(layer, inputs.first_shape);
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return {ReshapeTo(x.value, std::move(dims), target.graph), ""};
}

std::string AddBatchNorm(const BatchNormalizationSpec& layer, const ChannelledValue& x,
                         const LayerTarget& target) {
  BatchNormNodes nodes(layer, x, target);
  if (target.mode != ModelMode::kTraining) return nodes.Evaluate();
  return layer.synchronized ? nodes.TrainSynchronized() : nodes.Train();
}

}  // namespace cohort
