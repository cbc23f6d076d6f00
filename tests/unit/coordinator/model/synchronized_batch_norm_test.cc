// BatchNormalization over replicas that meet, against Keras's (tests/golden/keras/make_images.py).

#include <vector>

#include "common/program/gradients.h"
#include "coordinator/layers/nodes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"
#include "tests/unit/worker/run_together.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;  // what float32 loses in TensorFlow where gradients cancel

Shape ShapeOf(const json& dims) { return Shape(dims.get<std::vector<int64_t>>()); }

// One use of a synchronized layer in training: y, the moving mean and variance, and the gradients
// of sum(y * dy) by x, gamma and beta.
absl::StatusOr<GradientGraph> SynchronizedGraph(const json& golden) {
  const Shape keras = ShapeOf(golden.at("dims"));  // [N, rows, columns, channels]
  const json layer = {{"class_name", "BatchNormalization"},
                      {"config",
                       {{"name", "norm"},
                        {"momentum", golden.at("momentum")},
                        {"epsilon", golden.at("epsilon")},
                        {"synchronized", true}}}};
  GraphBuilder graph("norm");
  const std::vector<int64_t> dims = {-1, keras.dim(1), keras.dim(2), keras.dim(3)};
  const std::string x = graph.Input("x", DType::kFloat32, dims);
  const std::string dy = graph.Input("dy", DType::kFloat32, dims);
  for (const json& name : golden.at("names")) {
    graph.Input(name, DType::kFloat32, {keras.dim(3)});
  }
  StateValues state;
  const TensorType type = {.shape = {keras.dim(1), keras.dim(2), keras.dim(3)}};
  const auto built = BuildLayer(layer, {{.value = x, .type = type}}, graph, state);
  if (!built.ok()) return built.status();
  const std::string y = ChannelsLast(*built, Nodes(graph));
  const std::string total =
      graph.Op("ReduceSum", {graph.Op("Mul", {y, dy})}, {IntAttribute("keepdims", 0)});
  for (const std::string& output :
       {y, state.at("norm/moving_mean"), state.at("norm/moving_variance"), total}) {
    graph.Output(output);
  }
  const auto model = graph.Finish();
  if (!model.ok()) return model.status();
  return AddGradients(*model, total, {"x", "norm/gamma", "norm/beta"});
}

// Keras's two replicas have 2 and 3 examples.
TEST(SynchronizedBatchNorm, GivesWhatKerasReplicasGive) {
  const json golden = ReadGolden("keras/images.json").at("synchronized");
  const Shape whole = ShapeOf(golden.at("dims"));
  const auto graph = SynchronizedGraph(golden);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::vector<Tensor>> inputs;
  std::vector<Shape> parts;
  int64_t begin = 0;
  for (const json& y : golden.at("y")) {
    std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
    dims[0] = static_cast<int64_t>(y.size()) * whole.dim(0) / whole.num_elements();
    parts.emplace_back(dims);
    inputs.emplace_back();
    for (const char* name : {"x", "dy"}) {
      inputs.back().push_back(FloatTensor(golden.at(name), whole).Rows(begin, dims[0]));
    }
    for (const json& weight : golden.at("weights")) {
      inputs.back().push_back(FloatTensor(weight, {whole.dim(3)}));
    }
    begin += dims[0];
  }
  ASSERT_EQ(begin, 5);
  ASSERT_EQ(inputs.size(), 2u);
  // The loss is the sum of both.
  const ReplicaOutputs outputs = RunTogether(graph->model, inputs, {1, 1});
  for (size_t replica = 0; replica < outputs.size(); ++replica) {
    SCOPED_TRACE(replica);
    ASSERT_TRUE(outputs[replica].ok()) << outputs[replica].status();
    const std::vector<Tensor>& got = *outputs[replica];
    const Shape channels = {whole.dim(3)};
    const auto of_keras = [&](const char* key, const Shape& shape) {
      return FloatTensor(golden.at(key).at(replica), shape);
    };
    EXPECT_LT(LargestError(got[0], of_keras("y", parts[replica])), kTolerance);
    for (size_t i : {1, 2}) {
      const Tensor expected = FloatTensor(golden.at("after").at(i + 1), channels);
      EXPECT_LT(LargestError(got[i], expected), kTolerance) << "moving statistics " << i;
    }
    EXPECT_LT(LargestError(got[4], of_keras("dx", parts[replica])), kTolerance);
    EXPECT_LT(LargestError(got[5], of_keras("dgamma", channels)), kTolerance);
    EXPECT_LT(LargestError(got[6], of_keras("dbeta", channels)), kTolerance);
  }
}

}  // namespace
}  // namespace cohort
