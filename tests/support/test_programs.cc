#include "tests/support/test_programs.h"

#include <vector>

#include "common/base/check.h"
#include "common/program/graph_builder.h"

namespace cohort {

namespace {

proto::Program Finish(const std::string& name, GraphBuilder& graph) {
  const absl::StatusOr<onnx::ModelProto> model = graph.Finish();
  COHORT_CHECK(model.ok(), "a test's program is valid");
  proto::Program program;
  program.set_name(name);
  program.set_model(model->SerializeAsString());
  return program;
}

void Fetch(proto::Program& program, const std::string& value) {
  proto::OutputBinding* const output = program.add_outputs();
  output->set_output(value);
  output->set_fetch(true);
}

// A program that fetches its only input.
proto::Program Identity(const std::string& name, DType dtype, absl::Span<const int64_t> dims) {
  GraphBuilder graph(name);
  const std::string x = graph.Input("x", dtype, dims);
  const std::string y = graph.Op("Identity", {x});
  graph.Output(y);
  proto::Program program = Finish(name, graph);
  program.add_inputs()->set_input(x);
  Fetch(program, y);
  return program;
}

}  // namespace

proto::UpdateRule AssignAdd() {
  proto::UpdateRule rule;
  rule.set_op("assign_add");
  return rule;
}

proto::Program IncrementProgram(const std::string& variable) {
  GraphBuilder graph("increment");
  const std::string one = graph.Constant("one", Tensor::Scalar(1.0f));
  const std::string amount = graph.Op("Identity", {one});
  const std::string result = graph.Op("Identity", {one});
  graph.Output(amount);
  graph.Output(result);
  proto::Program program = Finish("increment", graph);
  proto::OutputBinding* const push = program.add_outputs();
  push->set_output(amount);
  push->set_push(variable);
  Fetch(program, result);
  return program;
}

proto::Program ReadProgram(const std::string& variable) {
  proto::Program program = Identity("read", DType::kFloat32, {});
  program.mutable_inputs(0)->set_variable(variable);
  return program;
}

proto::Program EchoProgram() {
  proto::Program program = Identity("echo", DType::kFloat32, {-1});
  program.mutable_inputs(0)->set_argument(0);
  return program;
}

proto::Program BatchProgram() {
  proto::Program program = Identity("batch", DType::kInt64, {-1});
  program.mutable_inputs(0)->set_batch_component(0);
  return program;
}

proto::Program WorkerIndexProgram() {
  GraphBuilder graph("worker_index");
  const std::string index = graph.Input("index", DType::kInt64, {});
  const std::string result = graph.Op("Identity", {index});
  graph.Output(result);
  proto::Program program = Finish("worker_index", graph);
  proto::InputBinding* const input = program.add_inputs();
  input->set_input(index);
  input->set_context(proto::WORKER_INDEX);
  Fetch(program, result);
  return program;
}

proto::Program PickyProgram() {
  proto::Program program = Identity("picky", DType::kFloat32, {2});
  program.mutable_inputs(0)->set_argument(0);
  return program;
}

}  // namespace cohort
