// InputLayer and Dense.

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

// An input of the model. The model checks the type against the data, and gives the input its value.
class InputLayer : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    input_.shape = reader.ExampleShape(LayerReader::InputDim::kShape).value_or(input_.shape);
    input_.dtype = reader.ElementType();
    // The first dimension is the batch, which Keras writes as null.
    nlohmann::ordered_json shape = {nullptr};
    for (const int64_t dim : input_.shape) {
      shape.push_back(dim < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(dim));
    }
    config.RecordAs("batch_input_shape", shape);
    config.RecordAs("dtype", std::string(DTypeName(input_.dtype)));
    config.OnlyNeutral("sparse", false);
    config.OnlyNeutral("ragged", false);
    config.OnlyNeutral("optional", false);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget&) const override {
    return {call.input()};
  }

  const InputType* input() const override { return &input_; }

 private:
  InputType input_;
};

class Dense : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    // Int() accepts an absent key, so Require() reports it.
    reader.config.Require("units");
    reader.config.Int("units", {.min = 1, .max = kDimMax}, &units_);
    reader.ReadActivation(&activation_);
    reader.config.Bool("use_bias", &use_bias_);
    reader.Weight("kernel", &kernel_);
    reader.Weight("bias", &bias_);
    reader.config.OnlyNeutral("lora_rank", nullptr);
    reader.config.OnlyNeutral("quantization_config", nullptr);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const Shape& shape = call.shape();
    const std::string& layer = call.settings.layer;
    if (shape.rank() < 1) {
      return WrongInput(layer, shape, "Dense needs at least one dimension beside the batch");
    }
    const int64_t inputs = shape.dim(shape.rank() - 1);
    // Neither the kernel nor an example of the output may exceed the limit.
    if (inputs > kElementsMax / units_ || shape.num_elements() / inputs > kElementsMax / units_) {
      return WrongInput(layer, shape, absl::StrCat(units_, " units make more than 2^31 elements"));
    }
    RETURN_IF_ERROR(plan.Add(call, "kernel", Shape({inputs, units_}), kernel_).status());
    if (use_bias_) RETURN_IF_ERROR(plan.Add(call, "bias", Shape({units_}), bias_).status());
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.back() = units_;
    ASSIGN_OR_RETURN(TensorType type, ActivatedType(activation_, layer, Shape(dims)));
    return std::vector<TensorType>{std::move(type)};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string x = ChannelsLast(call.input(), nodes);
    const std::string kernel = call.Variable("kernel");
    std::string y;
    // Gemm takes matrices only; MatMul works on the last axis of any shape.
    if (use_bias_ && call.shape().rank() == 1) {
      y = nodes.Op("Gemm", {x, kernel, call.Variable("bias")});
    } else {
      y = nodes.Op("MatMul", {x, kernel});
      if (use_bias_) y = nodes.Add(y, call.Variable("bias"));
    }
    std::vector<int64_t> dims(call.shape().dims().begin(), call.shape().dims().end());
    dims.back() = units_;
    return {Activate(activation_, {y, "", false, {.shape = Shape(dims)}}, target)};
  }

 private:
  int64_t units_ = 1;
  Activation activation_;
  bool use_bias_ = true;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  WeightRules bias_{{.class_name = "Zeros"}};
};

}  // namespace

void AddCoreLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"InputLayer", MakeLayer<InputLayer>});
  classes.push_back({"Dense", MakeLayer<Dense>, MaskRule::kPass});
}

}  // namespace cohort
