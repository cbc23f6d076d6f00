#include "common/runtime/run/program_runner.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/program/graph_builder.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/kernels/reference/register.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Input name and type of one value; dims of -1 have the symbol "N".
struct Value {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
};

void AddInput(onnx::ModelProto& model, const Value& value) {
  onnx::ValueInfoProto& info = *model.mutable_graph()->add_input();
  info.set_name(value.name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(value.dtype));
  for (const int64_t dim : value.dims) {
    auto& extent = *type.mutable_shape()->add_dim();
    dim < 0 ? extent.set_dim_param("N") : extent.set_dim_value(dim);
  }
}

void AddNode(onnx::ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
             const std::string& output) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_name("the_" + output);
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

onnx::ModelProto NewModel(const std::string& output) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->add_output()->set_name(output);
  return model;
}

// Both backends say the same.
class ProgramRunnerTest : public testing::TestWithParam<bool> {
 protected:
  ProgramRunnerTest() {
    GetParam() ? RegisterCpuKernels(registry_, 1) : RegisterReferenceKernels(registry_);
  }

  std::string CompileError(const onnx::ModelProto& model) {
    return std::string(CompileProgram(model, registry_).status().message());
  }
  std::string RunError(const onnx::ModelProto& model, const std::vector<Tensor>& inputs) {
    const auto program = CompileProgram(model, registry_);
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return "";
    ProgramRunner runner(*program);
    const absl::Status status = runner.Run(inputs, RunContext{}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  KernelRegistry registry_;
};

TEST_P(ProgramRunnerTest, EveryNodeWithoutKernelIsListed) {
  onnx::ModelProto model = NewModel("c");
  AddInput(model, {"x", DType::kFloat32, {2}});
  AddNode(model, "Gelu", {"x"}, "a");
  AddNode(model, "Relu", {"a"}, "b");
  AddNode(model, "Mish", {"b"}, "c");
  EXPECT_THAT(CompileError(model), AllOf(HasSubstr("'the_a' (Gelu)"), HasSubstr("'the_c' (Mish)"),
                                         testing::Not(HasSubstr("Relu"))));
}

TEST_P(ProgramRunnerTest, EveryNodeOfATypeWithoutKernelIsListed) {
  GraphBuilder builder("types");
  const auto half = builder.Input("half", DType::kFloat16, {2});
  const auto brain = builder.Input("brain", DType::kBfloat16, {2});
  const auto real = builder.Input("real", DType::kFloat32, {2});
  builder.Output(builder.Op("Exp", {builder.Op("Identity", {builder.Op("Sqrt", {half})})}));
  builder.Output(builder.Op("Add", {brain, brain}));
  builder.Output(builder.Op("Cast", {builder.Op("Relu", {real})}, {IntAttribute("to", 10)}));
  builder.Output(builder.Op("Acosh", {real}));
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CompileError(*model),
            "node 'Sqrt' (Sqrt): input 0 'half' is float16, but its kernel has float32, float64; "
            "node 'Exp' (Exp): input 0 'Identity:0' is float16, but its kernel has float32, "
            "float64; "
            "node 'Add' (Add): input 0 'brain' is bfloat16, but its kernel has float32, uint8, "
            "int8, int32, int64, float64; "
            "node 'Cast' (Cast): output 0 'Cast:0' is float16, but its kernel makes float32, "
            "uint8, int8, int32, int64, bool, float64; "
            "node 'Acosh' (Acosh) has no kernel");
}

TEST_P(ProgramRunnerTest, ATypeThatNoTensorHasIsToldWithTheNodesThatReadIt) {
  onnx::ModelProto model = NewModel("b");
  AddInput(model, {"x", static_cast<DType>(onnx::TensorProto::INT16), {2}});
  AddNode(model, "Identity", {"x"}, "a");
  AddNode(model, "Add", {"x", "a"}, "b");
  EXPECT_THAT(CompileError(model),
              AllOf(HasSubstr("input 'x': element type 5"),
                    HasSubstr("'the_a' (Identity): input 0 'x' is int16, but its kernel has "),
                    HasSubstr("'the_b' (Add): input 0 'x' is int16, but its kernel has ")));
}

// Only float32 has a fused kernel.
TEST_P(ProgramRunnerTest, ALayerOfFloat64Runs) {
  GraphBuilder builder("layer");
  const auto x = builder.Input("x", DType::kFloat64, {1, 2});
  const auto w = builder.Constant("w", Tensor::FromVector<double>({1, 2, 3, 4}, {2, 2}));
  const auto b = builder.Input("b", DType::kFloat64, {2});
  builder.Output(builder.Op("Relu", {builder.Op("Add", {builder.Op("MatMul", {x, w}), b})}));
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  const auto program = CompileProgram(*model, registry_);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto outputs = ProgramRunner(*program).Run(
      {Tensor::FromVector<double>({1, 10}, {1, 2}), Tensor::FromVector<double>({-50, 1}, {2})},
      RunContext{});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].span<double>(), testing::ElementsAre(0, 43));
}

TEST_P(ProgramRunnerTest, GraphsThatDoNotHoldTogetherAreRefused) {
  onnx::ModelProto undefined = NewModel("a");
  AddNode(undefined, "Relu", {"nowhere"}, "a");
  EXPECT_THAT(CompileError(undefined), HasSubstr("'nowhere', which nothing defines"));

  onnx::ModelProto cycle = NewModel("a");
  AddNode(cycle, "Relu", {"b"}, "a");
  AddNode(cycle, "Relu", {"a"}, "b");
  EXPECT_THAT(CompileError(cycle), HasSubstr("cycle"));

  onnx::ModelProto twice = NewModel("a");
  AddInput(twice, {"x", DType::kFloat32, {2}});
  AddNode(twice, "Relu", {"x"}, "a");
  AddNode(twice, "Neg", {"x"}, "a");
  EXPECT_THAT(CompileError(twice), HasSubstr("defines 'a' a second time"));

  onnx::ModelProto old = NewModel("x");
  AddInput(old, {"x", DType::kFloat32, {2}});
  old.mutable_opset_import(0)->set_version(9);
  EXPECT_THAT(CompileError(old), HasSubstr("opset 9"));
}

TEST_P(ProgramRunnerTest, WrongArityAndAttributesNameTheNode) {
  onnx::ModelProto model = NewModel("a");
  AddInput(model, {"x", DType::kFloat32, {2}});
  AddNode(model, "Add", {"x"}, "a");
  EXPECT_THAT(CompileError(model), AllOf(HasSubstr("the_a"), HasSubstr("has 1 inputs")));

  onnx::ModelProto attribute = NewModel("a");
  AddInput(attribute, {"x", DType::kFloat32, {2}});
  AddNode(attribute, "Softmax", {"x"}, "a");
  *attribute.mutable_graph()->mutable_node(0)->add_attribute() = FloatAttribute("axis", 1);
  EXPECT_THAT(CompileError(attribute), AllOf(HasSubstr("the_a"), HasSubstr("'axis'")));
  *attribute.mutable_graph()->mutable_node(0)->mutable_attribute(0) = IntAttribute("speed", 1);
  EXPECT_THAT(CompileError(attribute), HasSubstr("'speed' is not supported"));
}

TEST_P(ProgramRunnerTest, InputsAreCheckedAgainstTheGraph) {
  onnx::ModelProto model = NewModel("a");
  AddInput(model, {"x", DType::kFloat32, {-1, 3}});
  AddInput(model, {"y", DType::kFloat32, {-1, 3}});
  AddNode(model, "Add", {"x", "y"}, "a");
  const Tensor two = Tensor::Zeros(DType::kFloat32, {2, 3});
  EXPECT_THAT(RunError(model, {two}), HasSubstr("2 inputs, 1 were given"));
  EXPECT_THAT(RunError(model, {two, Tensor()}), HasSubstr("'y' has no value"));
  EXPECT_THAT(RunError(model, {two, Tensor::Zeros(DType::kInt64, {2, 3})}),
              AllOf(HasSubstr("'y'"), HasSubstr("int64[2,3]")));
  EXPECT_THAT(RunError(model, {two, Tensor::Zeros(DType::kFloat32, {2, 4})}),
              AllOf(HasSubstr("'y'"), HasSubstr("axis 1")));
  EXPECT_THAT(RunError(model, {two, Tensor::Zeros(DType::kFloat32, {1, 3})}),
              AllOf(HasSubstr("'N'"), HasSubstr("'x'"), HasSubstr("'y'")));
}

TEST_P(ProgramRunnerTest, ShapesThatDoNotFitNameTheNode) {
  for (const char* op : {"Add", "MatMul", "Div"}) {
    onnx::ModelProto model = NewModel("a");
    model.mutable_graph()->add_input()->set_name("x");
    model.mutable_graph()->add_input()->set_name("y");
    AddNode(model, op, {"x", "y"}, "a");
    const Tensor x = Tensor::Zeros(DType::kFloat32, {2, 3});
    const Tensor flag = Tensor::Zeros(DType::kBool, {1, 1});
    EXPECT_THAT(RunError(model, {x, Tensor::Zeros(DType::kFloat32, {2, 5})}),
                AllOf(HasSubstr("the_a"), HasSubstr("[2,5]")))
        << op;
    EXPECT_THAT(RunError(model, {x, Tensor::Zeros(DType::kInt64, {2, 3})}), HasSubstr("the_a"));
    EXPECT_THAT(RunError(model, {flag, flag}), HasSubstr("bool"));
  }
}

TEST_P(ProgramRunnerTest, ARunAfterAFailedOneIsRight) {
  onnx::ModelProto model = NewModel("b");
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_input()->set_name("y");
  AddNode(model, "Add", {"x", "y"}, "a");
  AddNode(model, "Neg", {"a"}, "b");
  ProgramRunner runner(*CompileProgram(model, registry_));
  const Tensor x = Tensor::FromVector<float>({1, 2}, {2});
  const Tensor y = Tensor::FromVector<float>({10, 20}, {2});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(runner.Run({x, Tensor::Zeros(DType::kFloat32, {3})}, RunContext{}).ok());
    const auto outputs = runner.Run({x, y}, RunContext{});
    ASSERT_TRUE(outputs.ok());
    EXPECT_THAT((*outputs)[0].span<float>(), testing::ElementsAre(-11, -22));
  }
}

TEST_P(ProgramRunnerTest, RunsWhoseShapesChangeTakeTheirBuffersAgain) {
  onnx::ModelProto model = NewModel("b");
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_input()->set_name("y");
  AddNode(model, "Exp", {"x"}, "a");
  AddNode(model, "MatMul", {"a", "y"}, "b");
  int made = 0;
  ProgramRunner runner(*CompileProgram(model, registry_), [&](size_t bytes) {
    ++made;
    return Buffer::Allocate(bytes);
  });
  const Tensor y = Tensor::FromVector<float>(std::vector<float>(9, 1), {3, 3});
  for (int64_t rows = 1000; rows < 1010; ++rows) {
    const auto outputs = runner.Run({Tensor::Zeros(DType::kFloat32, {rows, 3}), y}, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].shape(), (Shape{rows, 3}));
    EXPECT_THAT((*outputs)[0].span<float>(), testing::Each(3.0f));
  }
  EXPECT_EQ(made, 1) << "the first run is of any shape";
}

TEST_P(ProgramRunnerTest, NodesInAnyOrderAndUnusedNodes) {
  onnx::ModelProto model = NewModel("b");
  AddInput(model, {"x", DType::kFloat32, {2}});
  AddNode(model, "Neg", {"a"}, "b");
  AddNode(model, "NoSuchOperator", {"a"}, "unused");
  AddNode(model, "Relu", {"x"}, "a");
  model.mutable_graph()->add_output()->set_name("x");
  const auto program = CompileProgram(model, registry_);
  ASSERT_TRUE(program.ok()) << program.status();
  const Tensor x = Tensor::FromVector<float>({-1, 2}, {2});
  const auto outputs = ProgramRunner(*program).Run({x}, RunContext{});
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT((*outputs)[0].span<float>(), testing::ElementsAre(0, -2));
  EXPECT_THAT((*outputs)[1].span<float>(), testing::ElementsAre(-1, 2));
}

// Tells what it was given, and copies it; ends the run at one output. Thread-compatible.
class Copying final : public OutputTaker {
 public:
  explicit Copying(size_t last = 99) : last_(last) {}
  absl::Status Take(size_t output, const Tensor& value) override {
    taken.emplace_back(output, value.Clone());
    return output == last_ ? absl::AbortedError("enough") : absl::OkStatus();
  }
  std::vector<std::pair<size_t, Tensor>> taken;

 private:
  const size_t last_;
};

// x is computed by no node, b is read on, and d is b under another name.
TEST_P(ProgramRunnerTest, OutputsAreTakenAsTheyAreComputedAndStayAsTheyWere) {
  GraphBuilder builder("taken");
  const auto x = builder.Input("x", DType::kFloat32, {2});
  const auto b = builder.Op("Relu", {builder.Op("Neg", {x})});
  const auto d = builder.Op("Identity", {b});
  const auto a = builder.Op("Exp", {builder.Op("Neg", {d})});
  for (const std::string& output : {a, b, x, d}) builder.Output(output);
  auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  const auto program = CompileProgram(*model, registry_);
  ASSERT_TRUE(program.ok()) << program.status();
  ProgramRunner runner(*program);
  for (int run = 0; run < 3; ++run) {  // recorded, and by the plan
    Copying taker;
    RunContext context;
    context.taker = &taker;
    const auto outputs = runner.Run({Tensor::FromVector<float>({-1, 2}, {2})}, context);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    std::vector<size_t> order;
    for (const auto& [output, value] : taker.taken) {
      order.push_back(output);
      EXPECT_EQ((*outputs)[output].span<float>(), value.span<float>()) << output;
    }
    EXPECT_THAT(order, testing::ElementsAre(2, 1, 3, 0));
    EXPECT_THAT((*outputs)[1].span<float>(), testing::ElementsAre(1, 0));
  }
}

TEST_P(ProgramRunnerTest, ATakerEndsTheRunWithItsError) {
  onnx::ModelProto model = NewModel("a");
  AddInput(model, {"x", DType::kFloat32, {2}});
  AddNode(model, "Neg", {"x"}, "a");
  AddNode(model, "Exp", {"a"}, "b");
  model.mutable_graph()->add_output()->set_name("b");
  ProgramRunner runner(*CompileProgram(model, registry_));
  const std::vector<Tensor> inputs = {Tensor::FromVector<float>({1, 2}, {2})};
  Copying taker(0);
  RunContext context;
  context.taker = &taker;
  EXPECT_EQ(runner.Run(inputs, context).status(), absl::AbortedError("enough")) << "as it is";
  EXPECT_EQ(taker.taken.size(), 1u);
  EXPECT_TRUE(runner.Run(inputs, RunContext{}).ok()) << "and the next run is none the worse";
}

// The norm is of all elements together, and neither overflows nor hides what is not finite.
TEST_P(ProgramRunnerTest, ClipsToANormOfAllInputs) {
  GraphBuilder builder("clip");
  const auto x = builder.Input("x", DType::kFloat32, {2});
  const auto y = builder.Input("y", DType::kFloat32, {});
  for (const std::string& clipped :
       builder.OpN("ClipByNorm", {x, y}, 2, {FloatAttribute("clip_norm", 13)}, "cohort")) {
    builder.Output(clipped);
  }
  const auto program = CompileProgram(*builder.Finish(), registry_);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto clip = [&](float a, float b, float c) {
    ProgramRunner runner(*program);
    const auto outputs = runner.Run(
        {Tensor::FromVector<float>({a, b}, {2}), Tensor::Scalar<float>(c)}, RunContext{});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return std::vector<float>{(*outputs)[0].data<float>()[0], (*outputs)[0].data<float>()[1],
                              (*outputs)[1].data<float>()[0]};
  };
  using testing::Each;
  using testing::ElementsAre;
  using testing::FloatEq;
  using testing::IsNan;
  EXPECT_THAT(clip(3, 4, 12), ElementsAre(3, 4, 12));  // of norm 13
  EXPECT_THAT(clip(6, -8, 24), ElementsAre(FloatEq(3), FloatEq(-4), FloatEq(12)));
  EXPECT_THAT(clip(3e30f, 4e30f, 12e30f), ElementsAre(FloatEq(3), FloatEq(4), FloatEq(12)));
  EXPECT_THAT(clip(0, 0, 0), Each(0));
  EXPECT_THAT(clip(1, std::numeric_limits<float>::infinity(), 1), Each(IsNan()));
  EXPECT_THAT(clip(1, 2, std::nanf("")), Each(IsNan()));
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramRunnerTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Cpu" : "Reference"; });

}  // namespace
}  // namespace cohort
