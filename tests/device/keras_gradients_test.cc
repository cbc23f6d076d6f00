// A digits-like network's loss and gradients against those of Keras
// (tests/golden/keras_gradients/make.py).

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/run/program_runner.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

using nlohmann::json;

Tensor ReadTensor(const json& array, DType dtype) {
  Tensor tensor(dtype, Shape(array["dims"].get<std::vector<int64_t>>()));
  for (size_t i = 0; i < array["values"].size(); ++i) {
    const double value = array["values"][i].get<double>();
    if (dtype == DType::kInt64) tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(value);
    if (dtype == DType::kFloat64) tensor.mutable_data<double>()[i] = value;
    if (dtype == DType::kFloat32) tensor.mutable_data<float>()[i] = static_cast<float>(value);
  }
  return tensor;
}

double At(const Tensor& tensor, size_t i) {
  return tensor.dtype() == DType::kFloat64 ? tensor.data<double>()[i]
                                           : static_cast<double>(tensor.data<float>()[i]);
}

absl::StatusOr<GradientGraph> BuildMlp(const json& each, DType dtype) {
  const bool sparse = each["sparse"].get<bool>();
  const bool from_logits = each["from_logits"].get<bool>();
  GraphBuilder builder("mlp");
  const auto x = builder.Input("x", dtype, {-1, 6});
  const auto labels = sparse ? builder.Input("labels", DType::kInt64, {-1})
                             : builder.Input("labels", dtype, {-1, 4});
  const auto w1 = builder.Input("w1", dtype, {6, 5});
  const auto b1 = builder.Input("b1", dtype, {5});
  const auto w2 = builder.Input("w2", dtype, {5, 4});
  const auto b2 = builder.Input("b2", dtype, {4});
  const auto h = builder.Op("Relu", {builder.Op("Add", {builder.Op("MatMul", {x, w1}), b1})});
  auto y = builder.Op("Add", {builder.Op("MatMul", {h, w2}), b2});
  if (!from_logits) y = builder.Op("Softmax", {y});
  const auto losses =
      builder.Op(sparse ? "SparseCategoricalCrossentropy" : "CategoricalCrossentropy", {labels, y},
                 {IntAttribute("from_logits", from_logits ? 1 : 0)}, kCohortDomain);
  const auto loss = builder.Op("ReduceMean", {losses}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  auto model = builder.Finish();
  if (!model.ok()) return model.status();
  return AddGradients(*model, loss, {w1, b1, w2, b2});
}

void CheckCase(const json& each, DType dtype, const Backend& backend, double tolerance) {
  SCOPED_TRACE(each["name"].get<std::string>() + " on " + backend.name);
  const auto graph = BuildMlp(each, dtype);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto compiled = CompileProgram(graph->model, backend.registry);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  std::vector<Tensor> inputs = {
      ReadTensor(each["x"], dtype),
      ReadTensor(each["labels"], each["sparse"].get<bool>() ? DType::kInt64 : dtype)};
  for (const json& weight : each["weights"]) inputs.push_back(ReadTensor(weight, dtype));
  ProgramRunner runner(*compiled);
  runner.FillDeadMemory();
  (void)runner.Run(inputs, RunContext{});  // makes the plan
  const auto outputs = runner.Run(inputs, RunContext{});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 5u);
  EXPECT_NEAR(At((*outputs)[0], 0), each["loss"].get<double>(), tolerance);
  for (size_t i = 0; i < 4; ++i) {
    const Tensor expected = ReadTensor(each["gradients"][i], DType::kFloat64);
    ASSERT_EQ((*outputs)[i + 1].shape(), expected.shape());
    for (int64_t k = 0; k < expected.num_elements(); ++k) {
      EXPECT_NEAR(At((*outputs)[i + 1], static_cast<size_t>(k)), expected.data<double>()[k],
                  tolerance)
          << "weight " << i << "[" << k << "]";
    }
  }
}

TEST(KerasGradients, AgreeOnBothBackends) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/keras_gradients/keras_gradients.json");
  const json golden = json::parse(file);
  ASSERT_EQ(golden["cases"].size(), 8u);
  for (const json& each : golden["cases"]) {
    CheckCase(each, DType::kFloat64, ReferenceBackend(), 1e-12);
    CheckCase(each, DType::kFloat32, CpuBackend(), 1e-6);
  }
}

}  // namespace
}  // namespace cohort
