#include "coordinator/model/sequential_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/model/initializer.h"

namespace cohort {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 31;  // of one example or one variable

// Adds nodes of one layer. Lives for one call. Thread-compatible.
class LayerNodes {
 public:
  LayerNodes(GraphBuilder& graph, ModelMode mode, const Shape& input_shape)
      : graph_(graph), mode_(mode), input_shape_(input_shape) {}

  ModelOutput Add(const InputLayerSpec&, const ModelOutput& x) { return x; }

  ModelOutput Add(const DenseSpec& layer, const ModelOutput& x) {
    const std::string kernel = layer.name + "/kernel";
    const std::string bias = layer.name + "/bias";
    std::string y;
    if (layer.use_bias && input_shape_.rank() == 1) {
      y = graph_.Op("Gemm", {x.value, kernel, bias});
    } else {
      y = graph_.Op("MatMul", {x.value, kernel});
      if (layer.use_bias) y = graph_.Op("Add", {y, bias});
    }
    return Activate(layer.activation, y);
  }

  // Where nothing is dropped Keras hands its input through, logits included.
  ModelOutput Add(const DropoutSpec& layer, const ModelOutput& x) {
    if (mode_ == ModelMode::kInference || layer.rate == 0) return x;
    const std::string ratio =
        graph_.Constant(layer.name + "/ratio", Tensor::Scalar(static_cast<float>(layer.rate)));
    const std::string training = graph_.Constant(layer.name + "/training", Tensor::Scalar(true));
    std::vector<onnx::AttributeProto> attributes;
    if (layer.seed) attributes.push_back(IntAttribute("seed", static_cast<int64_t>(*layer.seed)));
    return {graph_.Op("Dropout", {x.value, ratio, training}, std::move(attributes)), ""};
  }

  ModelOutput Add(const FlattenSpec&, const ModelOutput& x) {
    if (input_shape_.rank() == 1) return {x.value, ""};
    return {graph_.Op("Flatten", {x.value}, {IntAttribute("axis", 1)}), ""};
  }

  ModelOutput Add(const ActivationSpec& layer, const ModelOutput& x) {
    return Activate(layer.activation, x.value);
  }

 private:
  ModelOutput Activate(Activation activation, const std::string& x) {
    switch (activation) {
      case Activation::kLinear:
        return {x, ""};
      case Activation::kRelu:
        return {graph_.Op("Relu", {x}), ""};
      case Activation::kSigmoid:
        return {graph_.Op("Sigmoid", {x}), x};
      case Activation::kTanh:
        return {graph_.Op("Tanh", {x}), ""};
      case Activation::kSoftmax:
        return {graph_.Op("Softmax", {x}, {IntAttribute("axis", -1)}), x};
    }
    return {x, ""};
  }

  GraphBuilder& graph_;
  const ModelMode mode_;
  const Shape& input_shape_;
};

absl::Status WrongInput(absl::string_view layer, const Shape& shape, absl::string_view need) {
  return absl::InvalidArgumentError(absl::StrCat("layer '", layer, "' is given examples of shape ",
                                                 shape.ToString(), "; ", need));
}

absl::StatusOr<DType> BatchType(const proto::ComponentSpec& x) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(x.dtype()));
  if (x.dims_size() < 1) {
    return absl::InvalidArgumentError("x has no batch dimension; batch the data set");
  }
  int64_t elements = 1;
  for (int i = 1; i < x.dims_size(); ++i) {
    if (x.dims(i) < 1 || elements > kElementsMax / x.dims(i)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "x has ", x.dims(i), " in dimension ", i,
          "; every dimension but the batch must be known, with fewer than 2^31 elements in all"));
    }
    elements *= x.dims(i);
  }
  return dtype;
}

}  // namespace

absl::StatusOr<SequentialModel> SequentialModel::Create(const ModelSpec& spec, uint64_t seed,
                                                        const proto::ComponentSpec& x) {
  SequentialModel model;
  model.seed_ = seed;
  model.layers_ = spec.layers;
  ASSIGN_OR_RETURN(model.input_dtype_, BatchType(x));
  Shape shape(absl::MakeConstSpan(x.dims().data(), static_cast<size_t>(x.dims_size())).subspan(1));
  for (const LayerSpec& layer : model.layers_) {
    model.input_shapes_.push_back(shape);
    RETURN_IF_ERROR(std::visit([&](const auto& one) { return model.Apply(one, shape); }, layer));
  }
  model.output_shape_ = shape;
  return model;
}

absl::Status SequentialModel::Apply(const InputLayerSpec& layer, Shape& shape) {
  const Shape declared(layer.shape);
  if (declared == shape) return absl::OkStatus();
  return WrongInput(layer.name, shape,
                    absl::StrCat("the model declares ", declared.ToString(),
                                 "; change input_shape, or data.pipeline (Flatten joins "
                                 "dimensions)"));
}

absl::Status SequentialModel::Apply(const DenseSpec& layer, Shape& shape) {
  if (shape.rank() < 1) {
    return WrongInput(layer.name, shape, "Dense needs at least one dimension beside the batch");
  }
  const int64_t inputs = shape.dim(shape.rank() - 1);
  if (inputs > kElementsMax / layer.units ||
      shape.num_elements() / inputs > kElementsMax / layer.units) {
    return WrongInput(layer.name, shape,
                      absl::StrCat(layer.units, " units make more than 2^31 elements"));
  }
  VariableSpec kernel;
  kernel.name = layer.name + "/kernel";
  kernel.shape = Shape({inputs, layer.units});
  kernel.initializer = MakeInitializer(layer.kernel_initializer, kernel.shape, seed_);
  variables_.push_back(std::move(kernel));
  if (layer.use_bias) {
    VariableSpec bias;
    bias.name = layer.name + "/bias";
    bias.shape = Shape({layer.units});
    bias.initializer = MakeInitializer(layer.bias_initializer, bias.shape, seed_);
    variables_.push_back(std::move(bias));
  }
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = layer.units;
  shape = Shape(dims);
  return absl::OkStatus();
}

absl::Status SequentialModel::Apply(const DropoutSpec&, Shape&) { return absl::OkStatus(); }

absl::Status SequentialModel::Apply(const FlattenSpec& layer, Shape& shape) {
  if (shape.rank() < 1) {
    return WrongInput(layer.name, shape, "Flatten needs at least one dimension beside the batch");
  }
  shape = Shape({shape.num_elements()});
  return absl::OkStatus();
}

absl::Status SequentialModel::Apply(const ActivationSpec& layer, Shape& shape) {
  if (layer.activation == Activation::kSoftmax && shape.rank() < 1) {
    return WrongInput(layer.name, shape, "softmax needs at least one dimension beside the batch");
  }
  return absl::OkStatus();
}

void SequentialModel::AddVariableInputs(GraphBuilder& graph) const {
  for (const VariableSpec& variable : variables_) {
    graph.Input(variable.name, variable.dtype, variable.shape.dims());
  }
}

ModelOutput SequentialModel::AddLayers(const std::string& x, ModelMode mode,
                                       GraphBuilder& graph) const {
  ModelOutput output{x, ""};
  if (input_dtype_ != DType::kFloat32) {
    graph.SetNamePrefix("input/");
    output.value =
        graph.Op("Cast", {x}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))});
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    graph.SetNamePrefix(LayerName(layers_[i]) + "/");
    LayerNodes nodes(graph, mode, input_shapes_[i]);
    output = std::visit([&](const auto& one) { return nodes.Add(one, output); }, layers_[i]);
  }
  return output;
}

}  // namespace cohort
