#include "common/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/program/graph_builder.h"
#include "common/program/tensor_proto.h"
#include "common/program/value_types.h"

namespace cohort {
namespace {

using testing::HasSubstr;

onnx::ModelProto Small() {
  GraphBuilder builder("small");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 4});
  const auto w = builder.Input("w", DType::kFloat32, {4, 2});
  const auto b = builder.Constant("b", Tensor::FromVector<float>({1, 2}, {2}));
  builder.SetNamePrefix("dense/");
  builder.Output(builder.Op("Add", {builder.Op("MatMul", {x, w}), b}));
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

proto::Program SmallProgram() {
  proto::Program program;
  program.set_name("predict");
  program.set_model(Small().SerializeAsString());
  auto* x = program.add_inputs();
  x->set_input("x");
  x->set_batch_component(0);
  auto* w = program.add_inputs();
  w->set_input("w");
  w->set_variable("dense/kernel");
  auto* y = program.add_outputs();
  y->set_output("dense/Add:0");
  y->set_fetch(true);
  return program;
}

std::string LoadError(const proto::Program& program) {
  const auto model = LoadProgram(program);
  EXPECT_TRUE(model.ok() || model.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

// A model as an old exporter writes it: opset 7, IR 3, the weight listed among the inputs, no node
// names.
onnx::ModelProto OldModel(int opset) {
  onnx::ModelProto model;
  model.set_ir_version(3);
  auto* import = model.add_opset_import();
  import->set_domain("ai.onnx");
  import->set_version(opset);
  auto* graph = model.mutable_graph();
  graph->set_name("old");
  for (const char* name : {"x", "w"}) {
    auto* input = graph->add_input();
    input->set_name(name);
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    auto* rows = type->mutable_shape()->add_dim();
    if (input->name() == "x") {
      rows->set_dim_param("batch");
    } else {
      rows->set_dim_value(4);
    }
    type->mutable_shape()->add_dim()->set_dim_value(input->name() == "x" ? 4 : 2);
  }
  *graph->add_initializer() =
      ToTensorProto("w", Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  auto* product = graph->add_node();
  product->set_op_type("MatMul");
  product->add_input("x");
  product->add_input("w");
  product->add_output("z");
  auto* softmax = graph->add_node();
  softmax->set_op_type("Softmax");
  softmax->add_input("z");
  softmax->add_output("y");
  auto* output = graph->add_output();
  output->set_name("y");
  auto* type = output->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("batch");
  type->mutable_shape()->add_dim()->set_dim_value(2);
  return model;
}

TEST(LoadModel, ConvertsEveryOpsetFrom7To17) {
  for (int opset = 7; opset <= 17; ++opset) {
    const auto model = LoadModel(OldModel(opset).SerializeAsString());
    ASSERT_TRUE(model.ok()) << opset << ": " << model.status();
    EXPECT_EQ(model->opset_import(0).domain(), "");
    EXPECT_EQ(model->opset_import(0).version(), 17);
    EXPECT_EQ(model->graph().input_size(), 1) << "the weight is no input";
    EXPECT_EQ(TypeText(&model->graph().output(0).type()), "float32[batch,2]");
    for (const auto& node : model->graph().node()) EXPECT_FALSE(node.name().empty());
  }
}

TEST(LoadModel, RefusesOtherOpsets) {
  for (const int opset : {6, 18}) {
    const auto model = LoadModel(OldModel(opset).SerializeAsString());
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr("supported are 7 to 17"));
  }
}

TEST(LoadModel, AcceptsWhatItLoadedAgain) {
  const auto once = LoadModel(Small().SerializeAsString());
  ASSERT_TRUE(once.ok()) << once.status();
  const auto twice = LoadModel(once->SerializeAsString());
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(once->SerializeAsString(), twice->SerializeAsString());
}

TEST(LoadModel, RefusesBytesThatAreNoModel) {
  EXPECT_THAT(LoadModel("hello").status().message(), HasSubstr("5 bytes are not an ONNX model"));
  EXPECT_EQ(LoadModel("").status().code(), absl::StatusCode::kInvalidArgument);
}

// Whatever byte of a model is changed or cut, loading answers; it never crashes.
TEST(LoadModel, SurvivesDamage) {
  for (const onnx::ModelProto& model : {OldModel(9), Small()}) {
    const std::string good = model.SerializeAsString();
    for (size_t i = 0; i < 8 * good.size(); ++i) {
      std::string bad = good;
      bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
      (void)LoadModel(bad).status();
      (void)LoadModel(absl::string_view(good).substr(0, i / 8)).status();
    }
  }
}

TEST(LoadModel, NeverReadsDataOutsideTheFile) {
  onnx::ModelProto model = Small();
  auto* weight = model.mutable_graph()->mutable_initializer(0);
  weight->clear_raw_data();
  weight->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = weight->add_external_data();
  entry->set_key("location");
  entry->set_value("/etc/passwd");
  EXPECT_THAT(LoadModel(model.SerializeAsString()).status().message(),
              HasSubstr("weight \"b\": its data is outside"));
}

TEST(LoadProgram, TakesAProgramWhoseBindingsFit) {
  const auto model = LoadProgram(SmallProgram());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph().node_size(), 2);
}

TEST(LoadProgram, NamesTheBindingThatDoesNotFit) {
  proto::Program program = SmallProgram();
  program.mutable_inputs(1)->set_input("v");
  EXPECT_THAT(LoadError(program), HasSubstr("program \"predict\": input \"w\""));

  program = SmallProgram();
  program.mutable_inputs()->RemoveLast();
  EXPECT_THAT(LoadError(program), HasSubstr("1 input bindings for 2 graph inputs"));

  program = SmallProgram();
  program.mutable_inputs(0)->set_variable("dense/kernel");
  EXPECT_THAT(LoadError(program), HasSubstr("bound twice"));

  program = SmallProgram();
  program.mutable_inputs(0)->set_context(proto::STEP);
  EXPECT_THAT(LoadError(program), HasSubstr("STEP is a int64 scalar"));

  program = SmallProgram();
  program.mutable_inputs(0)->clear_source();
  EXPECT_THAT(LoadError(program), HasSubstr("bound to nothing"));

  program = SmallProgram();
  program.mutable_outputs(0)->set_output("other");
  EXPECT_THAT(LoadError(program), HasSubstr("output \"dense/Add:0\""));

  program = SmallProgram();
  program.mutable_outputs(0)->clear_sink();
  EXPECT_THAT(LoadError(program), HasSubstr("bound to nothing"));
}

// Refuses float16, as a process would that has no kernels for it.
std::vector<std::string> NoHalves(const onnx::NodeProto& node, const ValueTypes& types) {
  if (types.dtype(node.input(0)) != DType::kFloat16) return {};
  return {"lacks float16"};
}

proto::Program HalvesProgram(const std::function<void(onnx::GraphProto&)>& damage) {
  GraphBuilder builder("halves");
  const auto x = builder.Input("x", DType::kFloat16, {2});
  const auto y = builder.Input("y", DType::kFloat16, {2});
  const auto z = builder.Op("Exp", {builder.Op("Sqrt", {x})});
  builder.Output(builder.Op("Neg", {builder.Op("Add", {y, z})}));
  auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  damage(*model->mutable_graph());
  proto::Program program;
  program.set_name("halves");
  program.set_model(model->SerializeAsString());
  return program;
}

TEST(LoadProgram, AnErrorListsTheNodesThatNoKernelFitsToo) {
  const auto unknown = LoadProgram(
      HalvesProgram([](onnx::GraphProto& graph) { graph.mutable_node(1)->set_op_type("Expo"); }),
      NoHalves);
  const std::string text(unknown.status().message());
  EXPECT_THAT(text, HasSubstr("the model has 4 problems: "));
  EXPECT_THAT(text, HasSubstr("node \"Exp\" (onnx.Expo): unknown operator"));
  EXPECT_THAT(text, HasSubstr("node \"Sqrt\" (onnx.Sqrt): lacks float16"));
  EXPECT_THAT(text, HasSubstr("node \"Add\" (onnx.Add): lacks float16"));
  EXPECT_THAT(text, HasSubstr("node \"Neg\" (onnx.Neg): lacks float16"));

  const auto mixed =
      LoadProgram(HalvesProgram([](onnx::GraphProto& graph) {
                    graph.mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
                        onnx::TensorProto::FLOAT);
                  }),
                  NoHalves);
  const std::string told(mixed.status().message());
  EXPECT_THAT(told, HasSubstr("node \"Add\" (onnx.Add): input 1"));
  EXPECT_THAT(told, HasSubstr("node \"Sqrt\" (onnx.Sqrt): lacks float16"));
  EXPECT_THAT(told, HasSubstr("node \"Exp\" (onnx.Exp): lacks float16"));
}

TEST(ProgramId, DependsOnEveryPartAndIsTheSameEverywhere) {
  const proto::Program program = SmallProgram();
  EXPECT_EQ(ProgramId(program).size(), 32u);
  EXPECT_EQ(ProgramId(program), ProgramId(program));
  proto::Program other = program;
  other.mutable_inputs(1)->set_variable("dense/kernel2");
  EXPECT_NE(ProgramId(program), ProgramId(other));
  // Fixed for ever: another process, compiler or machine must find the same.
  proto::Program named;
  named.set_name("train_step");
  EXPECT_EQ(ProgramId(named), "0e2d69237be2036f20011d59263d6352");
}

}  // namespace
}  // namespace cohort
