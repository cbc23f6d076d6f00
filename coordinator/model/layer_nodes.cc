#include "coordinator/model/layer_nodes.h"

#include <utility>

#include "coordinator/model/image_layer_nodes.h"
#include "coordinator/model/layer_shapes.h"

namespace cohort {
namespace {

std::string CastTo(DType dtype, const std::string& value, GraphBuilder& graph) {
  return graph.Op("Cast", {value}, {IntAttribute("to", static_cast<int64_t>(dtype))});
}

// Adds the nodes of one layer. Lives for one call. Thread-compatible.
class LayerNodes {
 public:
  LayerNodes(const LayerInputs& inputs, const LayerTarget& target)
      : target_(target), graph_(target.graph), inputs_(inputs), x_(inputs.values[0]) {}

  ModelOutput operator()(const InputLayerSpec&) { return x_; }

  ModelOutput operator()(const DenseSpec& layer) {
    const std::string kernel = layer.name + "/kernel";
    const std::string bias = layer.name + "/bias";
    const std::string x = ChannelsLast(x_, graph_).value;
    std::string y;
    // Gemm takes matrices only; MatMul works on the last axis of any shape.
    if (layer.use_bias && inputs_.first_shape.rank() == 1) {
      y = graph_.Op("Gemm", {x, kernel, bias});
    } else {
      y = graph_.Op("MatMul", {x, kernel});
      if (layer.use_bias) y = graph_.Op("Add", {y, bias});
    }
    return Activate(layer.activation, {y, ""});
  }

  // Adds a Dropout. If nothing is dropped, the input passes through with its logits, as in Keras.
  ModelOutput operator()(const DropoutSpec& layer) {
    if (target_.mode != ModelMode::kTraining || layer.rate == 0) return x_;
    const std::string ratio =
        graph_.Constant(layer.name + "/ratio", Tensor::Scalar(static_cast<float>(layer.rate)));
    const std::string training = graph_.Constant(layer.name + "/training", Tensor::Scalar(true));
    std::vector<onnx::AttributeProto> attributes;
    if (layer.seed) attributes.push_back(IntAttribute("seed", static_cast<int64_t>(*layer.seed)));
    return {graph_.Op("Dropout", {x_.value, ratio, training}, std::move(attributes)), "",
            x_.channels_first};
  }

  ModelOutput operator()(const FlattenSpec&) {
    // An example with one dimension is flat already.
    if (inputs_.first_shape.rank() == 1) return {x_.value, ""};
    const std::string x = ChannelsLast(x_, graph_).value;
    return {graph_.Op("Flatten", {x}, {IntAttribute("axis", 1)}), ""};
  }

  ModelOutput operator()(const ActivationSpec& layer) { return Activate(layer.activation, x_); }

  ModelOutput operator()(const ConcatenateSpec& layer) {
    std::vector<std::string> values;
    for (const ModelOutput& input : inputs_.values) {
      values.push_back(ChannelsLast(input, graph_).value);
    }
    return {graph_.Op("Concat", values, {IntAttribute("axis", layer.axis)}), ""};
  }

  ModelOutput operator()(const Conv2DSpec& layer) {
    return Activate(layer.activation, AddNodes(layer, inputs_, target_));
  }

  // Adds the nodes of a layer of image models: every kind without an overload of its own here.
  template <typename ImageSpec>
  ModelOutput operator()(const ImageSpec& layer) {
    return AddNodes(layer, inputs_, target_);
  }

  ModelOutput operator()(const EmbeddingSpec& layer) {
    // Gather replaces each id by its row of the table.
    return {graph_.Op("Gather", {TableOf(layer), x_.value}, {IntAttribute("axis", 0)}), ""};
  }

  // Adds an EmbeddingBag in ONNX's own operators, which have no bag: a negative id reads row 0 and
  // multiplies it by 0.
  ModelOutput operator()(const EmbeddingBagSpec& layer) {
    const std::string ids = CastTo(DType::kInt64, x_.value, graph_);
    const std::string one = graph_.Constant(layer.name + "/one", Tensor::Scalar<int64_t>(1));
    // relu(id + 1) is 0 exactly for negative ids, because ids are whole numbers.
    const std::string marks = graph_.Op("Relu", {graph_.Op("Add", {ids, one})});
    const std::string mask = IsNotZero(marks);
    const std::string safe = graph_.Op("Relu", {ids});
    const std::string rows = graph_.Op("Gather", {TableOf(layer), safe}, {IntAttribute("axis", 0)});
    const std::string column = graph_.Constant(
        layer.name + "/column", Tensor::FromVector<int64_t>({0, 0, 1}, {3}));  // 0 keeps a dim
    const std::string kept = graph_.Op("Mul", {rows, graph_.Op("Reshape", {mask, column})});
    const std::string axis =
        graph_.Constant(layer.name + "/axis", Tensor::FromVector<int64_t>({1}, {1}));
    const std::string sum = graph_.Op("ReduceSum", {kept, axis}, {IntAttribute("keepdims", 0)});
    if (layer.combiner == Combiner::kSum) return {sum, ""};
    const std::string count = graph_.Op("ReduceSum", {mask, axis}, {IntAttribute("keepdims", 1)});
    // The combiner "mean" divides the sum by the number of ids, "sqrtn" by the square root of that
    // number.
    std::string divisor = OrOne(layer.name, count);
    if (layer.combiner == Combiner::kSqrtn) divisor = graph_.Op("Sqrt", {divisor});
    return {graph_.Op("Div", {sum, divisor}), ""};
  }

 private:
  std::string IsNotZero(const std::string& value) {
    return CastTo(DType::kFloat32, CastTo(DType::kBool, value, graph_), graph_);
  }

  // Returns `count` with 1 in the place of 0, so that an example without ids gives 0 and not 0 / 0.
  std::string OrOne(const std::string& layer, const std::string& count) {
    const std::string one = graph_.Constant(layer + "/least", Tensor::Scalar(1.0f));
    return graph_.Op("Add", {count, graph_.Op("Sub", {one, IsNotZero(count)})});
  }

  ModelOutput Activate(Activation activation, const ModelOutput& input) {
    switch (activation) {
      case Activation::kLinear:
        return {input.value, "", input.channels_first};
      case Activation::kRelu:
        return {graph_.Op("Relu", {input.value}), "", input.channels_first};
      case Activation::kTanh:
        return {graph_.Op("Tanh", {input.value}), "", input.channels_first};
      case Activation::kSigmoid: {
        // The input of a softmax or sigmoid is brought into Keras's order, and kept as logits for
        // the loss.
        const std::string x = ChannelsLast(input, graph_).value;
        return {graph_.Op("Sigmoid", {x}), x};
      }
      case Activation::kSoftmax: {
        const std::string x = ChannelsLast(input, graph_).value;
        return {graph_.Op("Softmax", {x}, {IntAttribute("axis", -1)}), x};
      }
    }
    return input;
  }

  const LayerTarget& target_;
  GraphBuilder& graph_;
  const LayerInputs& inputs_;
  const ModelOutput& x_;
};

}  // namespace

ModelOutput AddLayerNodes(const LayerSpec& layer, const LayerInputs& inputs,
                          const LayerTarget& target) {
  return std::visit(LayerNodes(inputs, target), layer);
}

}  // namespace cohort
