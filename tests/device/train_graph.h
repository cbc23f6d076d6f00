#pragma once

// The train step of the MNIST MLP (784-256-128-10) as the main job has it, for tests and
// measurements of the runtime.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct TrainGraphOptions {
  int64_t inputs = 784;
  std::vector<int64_t> units = {256, 128, 10};
  bool dropout = true;
};

// Inputs: images [N, inputs], labels [N, last units] (one-hot), then kernel and bias of each layer.
// Outputs: the loss, then a gradient for each kernel and bias.
inline absl::StatusOr<GradientGraph> MakeTrainGraph(const TrainGraphOptions& options) {
  GraphBuilder builder("train_step");
  std::string x = builder.Input("images", DType::kFloat32, {-1, options.inputs});
  const std::string y = builder.Input("labels", DType::kFloat32, {-1, options.units.back()});
  std::vector<std::string> variables;
  const std::string ratio = builder.Constant("ratio", Tensor::Scalar<float>(0.4f));
  const std::string training = builder.Constant("training", Tensor::Scalar<bool>(true));
  int64_t width = options.inputs;
  for (size_t layer = 0; layer < options.units.size(); ++layer) {
    const std::string prefix = "dense_" + std::to_string(layer);
    const int64_t units = options.units[layer];
    variables.push_back(builder.Input(prefix + "/kernel", DType::kFloat32, {width, units}));
    variables.push_back(builder.Input(prefix + "/bias", DType::kFloat32, {units}));
    builder.SetNamePrefix(prefix + "/");
    x = builder.Op("MatMul", {x, variables[variables.size() - 2]});
    x = builder.Op("Add", {x, variables.back()});
    const bool last = layer + 1 == options.units.size();
    x = last ? builder.Op("Softmax", {x}) : builder.Op("Relu", {x});
    if (!last && options.dropout) x = builder.OpN("Dropout", {x, ratio, training}, 2)[0];
    width = units;
  }
  const std::string losses = builder.Op("CategoricalCrossentropy", {y, x}, {}, kCohortDomain);
  const std::string loss = builder.Op("ReduceMean", {losses}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  absl::StatusOr<onnx::ModelProto> model = builder.Finish();
  if (!model.ok()) return model.status();
  return AddGradients(*model, loss, variables);
}

}  // namespace cohort
