#pragma once

// Programs that the worker's tests run, built with the graph builder.

#include <string>
#include <vector>

#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/tensor/tensor.h"
#include "gtest/gtest.h"
#include "proto/program.pb.h"

namespace cohort {

inline void BindVariable(proto::Program& program, const std::string& input) {
  proto::InputBinding& binding = *program.add_inputs();
  binding.set_input(input);
  binding.set_variable(input);
}
inline void BindBatch(proto::Program& program, const std::string& input, uint32_t component) {
  proto::InputBinding& binding = *program.add_inputs();
  binding.set_input(input);
  binding.set_batch_component(component);
}
inline void BindFetch(proto::Program& program, const std::string& output) {
  proto::OutputBinding& binding = *program.add_outputs();
  binding.set_output(output);
  binding.set_fetch(true);
}
inline void BindPush(proto::Program& program, const std::string& output,
                     const std::string& variable) {
  proto::OutputBinding& binding = *program.add_outputs();
  binding.set_output(output);
  binding.set_push(variable);
}
inline void SetModel(proto::Program& program, GraphBuilder& builder) {
  const absl::StatusOr<onnx::ModelProto> model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  program.set_model(model->SerializeAsString());
}

// Pushes ones to "counter" (int64[rows]); fetches what it pulled where `pull` says so.
inline proto::Program CounterProgram(int64_t rows, bool pull) {
  proto::Program program;
  program.set_name("count");
  GraphBuilder builder("count");
  if (pull) {
    builder.Output(builder.Op("Identity", {builder.Input("counter", DType::kInt64, {rows})}));
    BindVariable(program, "counter");
  }
  const std::vector<int64_t> ones(static_cast<size_t>(rows), 1);
  const std::string constant =
      builder.Constant("ones", Tensor::FromVector<int64_t>(ones, Shape{rows}));
  const std::string delta = builder.Op("Identity", {constant});
  builder.Output(delta);
  SetModel(program, builder);
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(program.model()));
  if (pull) BindFetch(program, model.graph().output(0).name());
  BindPush(program, delta, "counter");
  return program;
}

// Fetches variable `name` of int64[rows].
inline proto::Program ReadProgram(const std::string& name, DType dtype, std::vector<int64_t> dims) {
  proto::Program program;
  program.set_name("read");
  GraphBuilder builder("read");
  const std::string value = builder.Op("Identity", {builder.Input(name, dtype, dims)});
  builder.Output(value);
  SetModel(program, builder);
  BindVariable(program, name);
  BindFetch(program, value);
  return program;
}

// Fetches its batch's component 0, int64[N].
inline proto::Program EchoProgram() {
  proto::Program program;
  program.set_name("echo");
  GraphBuilder builder("echo");
  const std::string value = builder.Op("Identity", {builder.Input("x", DType::kInt64, {-1})});
  builder.Output(value);
  SetModel(program, builder);
  BindBatch(program, "x", 0);
  BindFetch(program, value);
  return program;
}

// A perceptron of one hidden layer on x[N,4] and classes y[N], with its gradients pushed.
inline proto::Program PerceptronProgram() {
  proto::Program program;
  program.set_name("train_step");
  GraphBuilder builder("train_step");
  const std::string x = builder.Input("x", DType::kFloat32, {-1, 4});
  const std::string y = builder.Input("y", DType::kInt64, {-1});
  const std::string w1 = builder.Input("w1", DType::kFloat32, {4, 6});
  const std::string b1 = builder.Input("b1", DType::kFloat32, {6});
  const std::string w2 = builder.Input("w2", DType::kFloat32, {6, 3});
  const std::string hidden =
      builder.Op("Relu", {builder.Op("Add", {builder.Op("MatMul", {x, w1}), b1})});
  const std::string logits = builder.Op("MatMul", {hidden, w2});
  const std::string loss =
      builder.Op("SoftmaxCrossEntropyLoss", {logits, y}, {StringAttribute("reduction", "mean")});
  builder.Output(loss);
  const absl::StatusOr<onnx::ModelProto> forward = builder.Finish();
  EXPECT_TRUE(forward.ok()) << forward.status();
  const std::vector<std::string> wrt = {w1, b1, w2};
  absl::StatusOr<GradientGraph> gradients = AddGradients(*forward, loss, wrt);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  program.set_model(gradients->model.SerializeAsString());
  BindBatch(program, x, 0);
  BindBatch(program, y, 1);
  for (const std::string& name : wrt) BindVariable(program, name);
  BindFetch(program, loss);
  for (size_t i = 0; i < wrt.size(); ++i) BindPush(program, gradients->gradients[i], wrt[i]);
  return program;
}

}  // namespace cohort
