// What kernels declare to take is what they take: for every operator, each of its type parameters
// takes every element type in turn, and a program is refused when it is compiled exactly when a run
// would refuse it. The examples fit any type, so a run fails for no other reason.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/program/tensor_proto.h"
#include "common/runtime/run/fusion.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kUint8,   DType::kInt8,
                             DType::kInt32,   DType::kInt64,   DType::kBool,
                             DType::kFloat16, DType::kFloat64, DType::kBfloat16};

// Inputs of one letter have one type. The letter says which one the other inputs have while a
// parameter is tried: I int64, N int32, B bool, all others float32.
struct Input {
  char parameter = 'T';
  Shape shape;
  int value = 1;  // of all elements
};

struct Example {
  std::string domain;
  std::string op;
  std::vector<Input> inputs = {};
  std::vector<onnx::AttributeProto> attributes = {};
  int outputs = 1;
};

DType UsualType(char parameter) {
  return parameter == 'I'   ? DType::kInt64
         : parameter == 'N' ? DType::kInt32
         : parameter == 'B' ? DType::kBool
                            : DType::kFloat32;
}

constexpr const char* kOnnx = "";
constexpr const char* kCohort = kCohortDomain;

void AddElementwise(std::vector<Example>& examples) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Equal"}) {
    examples.push_back({kOnnx, op, {{'T', {2}}, {'T', {2}}}});
  }
  for (const char* op : {"Neg", "Sqrt", "Exp", "Log", "Relu", "Sigmoid", "Tanh", "Identity"}) {
    examples.push_back({kOnnx, op, {{'T', {2}}}});
  }
  for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad"}) {
    examples.push_back({kCohort, op, {{'T', {2}}, {'T', {2}}}});
  }
  examples.push_back({kCohort, "ZerosLike", {{'T', {2}}}});
  for (const DType to : kDTypes) {
    const int64_t number = static_cast<int64_t>(to);
    examples.push_back({kOnnx, "Cast", {{'T', {2}}}, {IntAttribute("to", number)}});
  }
  examples.push_back({kOnnx, "RandomNormalLike", {{'T', {2}}}});
  for (const int training : {0, 1}) {
    const Input ratio = {'R', {}, 0};
    const Input mode = {'B', {}, training};
    examples.push_back({kOnnx, "Dropout", {{'T', {2}}, ratio, mode}, {}, 2});
    examples.push_back({kOnnx, "Dropout", {{'T', {2}}, ratio, mode}});
    examples.push_back({kCohort, "DropoutGrad", {{'T', {2}}, {'B', {2}}, ratio, mode}});
  }
}

void AddProductsAndLosses(std::vector<Example>& examples) {
  const Input row = {'T', {1, 2}};
  const Input column = {'T', {2, 1}};
  const Input one = {'T', {1}};
  const Input label = {'I', {1}, 0};
  examples.push_back({kOnnx, "MatMul", {row, column}});
  examples.push_back({kOnnx, "Gemm", {row, column}});
  examples.push_back({kOnnx, "Gemm", {row, column, one}});
  const auto equation = StringAttribute("equation", "ij,jk->ik");
  examples.push_back({kOnnx, "Einsum", {row, column}, {equation}});
  examples.push_back({kOnnx, "Einsum", {row}, {StringAttribute("equation", "ij->j")}});
  examples.push_back({kCohort, "EinsumGrad", {{'T', {1, 1}}, row, column}, {equation}});
  examples.push_back({kRuntimeDomain, "MatMulBias", {row, column, one}});
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    examples.push_back({kOnnx, op, {row}});
    examples.push_back({kOnnx, op, {row}, {IntAttribute("axis", 0)}});
  }
  for (const char* op : {"SoftmaxGrad", "LogSoftmaxGrad"}) {
    examples.push_back({kCohort, op, {row, row}});
  }
  const Input weights = {'T', {2}};
  examples.push_back({kOnnx, "SoftmaxCrossEntropyLoss", {row, label}, {}, 2});
  examples.push_back({kOnnx, "SoftmaxCrossEntropyLoss", {row, label, weights}});
  examples.push_back({kCohort, "SoftmaxCrossEntropyGrad", {one, row, label}});
  examples.push_back({kCohort, "SoftmaxCrossEntropyGrad", {one, row, label, weights}});
  examples.push_back({kCohort, "CategoricalCrossentropy", {row, row}});
  examples.push_back({kCohort, "CategoricalCrossentropyGrad", {one, row, row}});
  examples.push_back({kCohort, "SparseCategoricalCrossentropy", {label, row}});
  examples.push_back({kCohort, "SparseCategoricalCrossentropyGrad", {one, label, row}});
  const Input sequence = {'T', {1, 1, 2}};
  const Input padding = {'I', {1, 1}, 0};
  examples.push_back({kCohort, "CtcLoss", {padding, sequence}});
  examples.push_back({kCohort, "CtcLossGrad", {one, padding, sequence}});
}

void AddReductions(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  const Input axes = {'I', {1}, 0};
  examples.push_back({kOnnx, "ReduceSum", {pair, axes}});
  examples.push_back({kOnnx, "ReduceSum", {pair}, {IntAttribute("noop_with_empty_axes", 1)}});
  examples.push_back({kOnnx, "ReduceMean", {pair}});
  examples.push_back({kOnnx, "ArgMax", {pair}});
  examples.push_back({kCohort, "ReduceGrad", {{'T', {1}}, {'U', {2}}}});
  examples.push_back({kCohort, "ReduceToShapeOf", {pair, {'U', {1}}}});
  examples.push_back({kCohort, "ReduceToShapeOf", {pair, {'U', {2}}}});
}

void AddMovement(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  const Input one = {'T', {1}};
  const Input index = {'I', {1}, 0};
  examples.push_back({kOnnx, "Reshape", {pair, {'I', {2}, 1}}});
  examples.back().inputs[0].shape = {1, 1};
  examples.push_back({kOnnx, "Flatten", {pair}});
  examples.push_back({kCohort, "ReshapeLike", {pair, {'U', {1, 2}}}});
  examples.push_back({kOnnx, "Transpose", {{'T', {1, 2}}}});
  const auto axis = IntAttribute("axis", 0);
  examples.push_back({kOnnx, "Concat", {one, one, one}, {axis}});
  examples.push_back({kCohort, "ConcatGrad", {pair, one, one}, {axis}, 2});
  examples.push_back({kCohort, "ClipByNorm", {pair, one}, {FloatAttribute("clip_norm", 1)}, 2});
  examples.push_back({kCohort, "ClipByValue", {pair}, {FloatAttribute("clip_value", 1)}});
  examples.push_back({kOnnx, "Gather", {pair, index}});
  examples.push_back({kCohort, "GatherGrad", {one, index, {'U', {2}}}});
  examples.push_back({kOnnx, "OneHot", {{'I', {1}, 0}, {'D', {}, 1}, {'V', {2}}}});
  onnx::AttributeProto value;
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = ToTensorProto("value", Tensor::Scalar<float>(1));
  examples.push_back({kOnnx, "Constant", {}, {value}});
}

void AddFunctions(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  for (const char* op : {"Abs", "Sign", "Floor", "Ceil", "Round", "Reciprocal", "Erf", "Softplus",
                         "Softsign", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu",
                         "HardSigmoid", "HardSwish", "Sin", "Cos", "IsNaN"}) {
    examples.push_back({kOnnx, op, {pair}});
  }
  examples.push_back({kOnnx, "Not", {{'B', {2}}}});
  for (const char* op : {"Gelu", "Log1p", "StopGradient"})
    examples.push_back({kCohort, op, {pair}});
  for (const char* function : {"Abs", "Elu", "GeluTanh"}) {
    examples.push_back(
        {kCohort, "UnaryGrad", {pair, pair}, {StringAttribute("function", function)}});
  }
}

void AddBinary(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  const Input scalar = {'T', {}};
  for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "PRelu"}) {
    examples.push_back({kOnnx, op, {pair, pair}});
  }
  for (const char* op : {"And", "Or", "Xor"}) {
    examples.push_back({kOnnx, op, {{'B', {2}}, {'B', {2}}}});
  }
  examples.push_back({kOnnx, "Pow", {pair, {'U', {2}}}});
  // Without fmod, the remainder of floats is refused when it is computed.
  examples.push_back({kOnnx, "Mod", {pair, pair}, {IntAttribute("fmod", 1)}});
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    examples.push_back({kOnnx, op, {pair, pair, pair}});
  }
  examples.push_back({kCohort, "MaxGrad", {pair, pair, pair}, {}, 2});
  examples.push_back({kOnnx, "Clip", {pair, scalar, scalar}});
  examples.push_back({kCohort, "ClipGrad", {pair, pair, scalar, scalar}});
  examples.push_back({kOnnx, "Where", {{'B', {2}}, pair, pair}});
}

void AddMoreReductions(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  const Input one = {'T', {1}};
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ArgMin"}) {
    examples.push_back({kOnnx, op, {pair}});
  }
  examples.push_back({kCohort, "ReduceExtremumGrad", {one, pair, one}});
  examples.push_back({kCohort, "ReduceProdGrad", {one, pair}});
  examples.push_back({kOnnx, "CumSum", {pair, {'I', {}, 0}}});
  examples.push_back({kOnnx, "TopK", {pair, {'I', {1}, 1}}, {}, 2});
}

void AddMoreMovement(std::vector<Example>& examples) {
  const Input pair = {'T', {2}};
  const Input one = {'T', {1}};
  const Input square = {'T', {2, 2}};
  const Input zero = {'I', {1}, 0};
  const Input unit = {'I', {1}, 1};
  examples.push_back({kOnnx, "Squeeze", {one, zero}});
  examples.push_back({kOnnx, "Unsqueeze", {pair, zero}});
  examples.push_back({kOnnx, "Shape", {pair}});
  examples.push_back({kOnnx, "Slice", {pair, zero, unit, zero, unit}});
  examples.push_back({kCohort, "SliceGrad", {one, {'U', {2}}, zero, unit, zero, unit}});
  examples.push_back({kOnnx, "Pad", {pair, {'I', {2}, 1}, {'T', {}}}});
  examples.push_back({kCohort, "PadGrad", {{'T', {4}}, {'U', {2}}, {'I', {2}, 1}}});
  examples.push_back({kOnnx, "Expand", {pair, unit}});
  examples.push_back({kOnnx, "Tile", {pair, unit}});
  examples.push_back({kCohort, "TileGrad", {pair, {'U', {2}}, unit}});
  examples.push_back({kOnnx, "Split", {pair, {'I', {2}, 1}}, {}, 2});
  examples.push_back({kOnnx, "Trilu", {square, {'I', {}, 0}}});
  examples.push_back({kOnnx, "ReverseSequence", {square, {'I', {2}, 1}}});
  examples.push_back({kOnnx, "Range", {{'T', {}, 0}, {'T', {}, 1}, {'T', {}, 1}}});
  examples.push_back({kOnnx, "ConstantOfShape", {unit}});
  examples.push_back({kOnnx, "GatherElements", {pair, zero}});
  examples.push_back({kOnnx, "GatherND", {pair, zero}});
  examples.back().inputs[1].shape = {1, 1};
  examples.push_back({kCohort, "GatherNDGrad", {one, {'U', {2}}, {'I', {1, 1}, 0}}});
  examples.push_back({kOnnx, "ScatterElements", {pair, zero, one}});
  examples.push_back({kOnnx, "ScatterND", {pair, {'I', {1, 1}, 0}, one}});
}

void AddImages(std::vector<Example>& examples) {
  const Input image = {'T', {1, 1, 2, 2}};
  const Input channel = {'T', {1}};
  const Input shape = {'U', {1, 1, 2, 2}};
  const Input result = {'T', {1, 1, 1, 1}};
  const auto window = IntsAttribute("kernel_shape", {2, 2});
  examples.push_back({kOnnx, "Conv", {image, image, channel}});
  examples.push_back({kOnnx, "Conv", {image, image}});
  examples.push_back({kCohort, "ConvInputGrad", {result, image, shape}});
  examples.push_back({kCohort, "ConvWeightGrad", {result, image, shape}});
  const Input larger = {'T', {1, 1, 3, 3}};
  examples.push_back({kOnnx, "ConvTranspose", {image, image, channel}});
  examples.push_back({kOnnx, "ConvTranspose", {image, image}});
  examples.push_back({kCohort, "ConvTransposeInputGrad", {larger, image, shape}});
  examples.push_back({kCohort, "ConvTransposeWeightGrad", {larger, image, shape}});
  examples.push_back({kOnnx, "MaxPool", {image}, {window}});
  examples.push_back({kOnnx, "MaxPool", {image}, {window}, 2});
  examples.push_back({kCohort, "MaxPoolGrad", {result, image}, {window}});
  examples.push_back({kOnnx, "AveragePool", {image}, {window}});
  examples.push_back({kCohort, "AveragePoolGrad", {result, shape}, {window}});
  examples.push_back({kOnnx, "GlobalAveragePool", {image}});
  for (const int64_t training : {0, 1}) {
    const auto mode = IntAttribute("training_mode", training);
    examples.push_back({kOnnx,
                        "BatchNormalization",
                        {image, channel, channel, channel, channel},
                        {mode},
                        training ? 3 : 1});
    examples.push_back(
        {kCohort, "BatchNormalizationGrad", {image, image, channel, channel, channel}, {mode}, 3});
  }
  const Input pair = {'T', {2}};
  const Input statistics = {'S', {1}};
  examples.push_back({kOnnx, "LayerNormalization", {pair, pair, pair}, {}, 3});
  examples.push_back({kOnnx, "LayerNormalization", {pair, pair}});
  examples.push_back({kCohort, "LayerNormalizationGrad", {pair, pair, pair}, {}, 3});
  examples.push_back(
      {kCohort, "LayerNormalizationGrad", {pair, pair, pair, statistics, statistics}, {}, 3});
  examples.push_back({kOnnx, "InstanceNormalization", {image, channel, channel}});
  examples.push_back({kCohort, "GroupNormalization", {image, channel, channel}});
  examples.push_back({kCohort, "GroupNormalizationGrad", {image, image, channel}, {}, 3});
  const Input no_roi = {'R', {0}};
  const Input no_scales = {'S', {0}};
  const Input sizes = {'I', {1}, 2};
  examples.push_back({kOnnx, "Resize", {pair, no_roi, no_scales, sizes}});
  examples.push_back({kOnnx, "Resize", {pair, no_roi, {'S', {1}}}});
  examples.push_back({kCohort, "ResizeGrad", {pair, {'U', {2}}, no_roi, no_scales, sizes}});
  examples.push_back({kOnnx, "Size", {image}});
  examples.push_back({kCohort, "AllReduce", {image}, {StringAttribute("reduction", "mean")}});
  examples.push_back({kCohort, "AllGather", {image}});
  examples.push_back({kCohort, "AllGatherGrad", {image, image}});
}

void AddRecurrent(std::vector<Example>& examples) {
  const Input state = {'T', {1, 1, 1}};
  const Input lengths = {'N', {1}};
  const Input mask = {'B', {1, 1}};
  const auto weights = [](int64_t gates) { return Input{'T', {1, gates, 1}}; };
  const auto bias = [](int64_t gates) { return Input{'T', {1, 2 * gates}}; };
  const Input peepholes = {'T', {1, 3}};
  examples.push_back({kOnnx,
                      "LSTM",
                      {state, weights(4), weights(4), bias(4), lengths, state, state, peepholes},
                      {},
                      3});
  examples.push_back({kOnnx, "LSTM", {state, weights(4), weights(4)}});
  examples.push_back(
      {kOnnx, "GRU", {state, weights(3), weights(3), bias(3), lengths, state}, {}, 2});
  examples.push_back(
      {kOnnx, "RNN", {state, weights(1), weights(1), bias(1), lengths, state}, {}, 2});
  const std::vector<onnx::AttributeProto> lstm = {StringAttribute("cell", "LSTM")};
  const Input saved = {'T', {1, 1, 1, 6}};
  const Input y = {'T', {1, 1, 1, 1}};
  std::vector<Input> inputs = {state, weights(4), weights(4), bias(4),
                               mask,  state,      state,      peepholes};
  examples.push_back({kCohort, "Recurrent", inputs, lstm, 4});
  for (const Input& each : {y, state, state, saved, lengths}) inputs.push_back(each);
  examples.push_back({kCohort, "RecurrentGrad", inputs, lstm, 7});
}

std::vector<Example> AllExamples() {
  std::vector<Example> examples;
  AddElementwise(examples);
  AddProductsAndLosses(examples);
  AddReductions(examples);
  AddMovement(examples);
  AddImages(examples);
  AddFunctions(examples);
  AddBinary(examples);
  AddMoreReductions(examples);
  AddMoreMovement(examples);
  AddRecurrent(examples);
  return examples;
}

template <typename T>
void Fill(Tensor& tensor, int value) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<T>()[i] = static_cast<T>(value);
  }
}

// Of the types that C++ lacks the bits are zeros: no kernel looks at them.
Tensor MakeTensor(const Input& input, DType dtype) {
  Tensor tensor = Tensor::Zeros(dtype, input.shape);
  if (dtype == DType::kFloat32) Fill<float>(tensor, input.value);
  if (dtype == DType::kFloat64) Fill<double>(tensor, input.value);
  if (dtype == DType::kInt32) Fill<int32_t>(tensor, input.value);
  if (dtype == DType::kInt64) Fill<int64_t>(tensor, input.value);
  if (dtype == DType::kUint8) Fill<uint8_t>(tensor, input.value);
  if (dtype == DType::kInt8) Fill<int8_t>(tensor, input.value);
  if (dtype == DType::kBool) Fill<bool>(tensor, input.value);
  return tensor;
}

// One node. Its inputs have the given types, or none.
onnx::ModelProto MakeModel(const Example& example, const std::vector<DType>& types) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(kOnnxOpset);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_name("node");
  node.set_op_type(example.op);
  node.set_domain(example.domain);
  for (const auto& attribute : example.attributes) *node.add_attribute() = attribute;
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    onnx::ValueInfoProto& input = *model.mutable_graph()->add_input();
    input.set_name("x" + std::to_string(i));
    node.add_input(input.name());
    if (types.empty()) continue;
    input.mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int32_t>(types[i]));
  }
  for (int i = 0; i < example.outputs; ++i) {
    node.add_output("y" + std::to_string(i));
    model.mutable_graph()->add_output()->set_name(node.output(i));
  }
  return model;
}

absl::Status Compile(const Backend& backend, const Example& example,
                     const std::vector<DType>& types) {
  return CompileProgram(MakeModel(example, types), backend.registry).status();
}

// Without declared types, so that only the kernel can refuse one.
absl::Status RunOnce(const Backend& backend, const Example& example,
                     const std::vector<DType>& types) {
  const auto program = CompileProgram(MakeModel(example, {}), backend.registry);
  if (!program.ok()) return program.status();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(MakeTensor(example.inputs[i], types[i]));
  }
  return ProgramRunner(*program).Run(inputs, RunContext{}).status();
}

std::string Label(const Backend& backend, const Example& example, const std::vector<DType>& types) {
  std::string label = backend.name + ": " + example.domain + "." + example.op;
  for (const auto& attribute : example.attributes) label += " " + attribute.ShortDebugString();
  for (const DType type : types) label += " " + std::string(DTypeName(type));
  return label;
}

// The usual types, but `dtype` in the inputs for which `changes` holds.
template <typename Changes>
std::vector<DType> TypesWith(const Example& example, DType dtype, Changes changes) {
  std::vector<DType> types;
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    types.push_back(changes(i) ? dtype : UsualType(example.inputs[i].parameter));
  }
  return types;
}

void CheckParameters(const Backend& backend, const Example& example) {
  std::set<char> parameters;
  for (const Input& input : example.inputs) parameters.insert(input.parameter);
  for (const char parameter : parameters) {
    for (const DType dtype : kDTypes) {
      const std::vector<DType> types = TypesWith(
          example, dtype, [&](size_t i) { return example.inputs[i].parameter == parameter; });
      const absl::Status compiled = Compile(backend, example, types);
      const absl::Status run = RunOnce(backend, example, types);
      EXPECT_EQ(compiled.ok(), run.ok())
          << Label(backend, example, types) << "\n  compiled: " << compiled << "\n  run: " << run;
    }
  }
}

// Inputs that should have one type are left alone to the shared checks of a model; but what is
// refused for one input must not run either.
void CheckInputs(const Backend& backend, const Example& example) {
  for (size_t input = 0; input < example.inputs.size(); ++input) {
    for (const DType dtype : kDTypes) {
      const std::vector<DType> types =
          TypesWith(example, dtype, [&](size_t i) { return i == input; });
      if (Compile(backend, example, types).ok()) continue;
      EXPECT_FALSE(RunOnce(backend, example, types).ok())
          << Label(backend, example, types) << ": refused, but it runs";
    }
  }
}

std::vector<Backend> Backends() { return {CpuBackend(), ReferenceBackend()}; }

TEST(KernelTypesTest, ATypeIsRefusedAtLoadExactlyWhenTheKernelRefusesIt) {
  for (const Backend& backend : Backends()) {
    for (const Example& example : AllExamples()) {
      if (backend.registry.Find(example.domain, example.op) == nullptr) continue;
      CheckParameters(backend, example);
      CheckInputs(backend, example);
    }
  }
}

TEST(KernelTypesTest, EveryExampleRunsWithItsUsualTypes) {
  const Backend cpu = CpuBackend();  // has the fused operators too
  for (const Example& example : AllExamples()) {
    if (example.op == "Cast") continue;  // some targets are refused for any input
    const auto types = TypesWith(example, DType::kFloat32, [](size_t) { return false; });
    EXPECT_TRUE(Compile(cpu, example, types).ok()) << Label(cpu, example, types);
    EXPECT_TRUE(RunOnce(cpu, example, types).ok()) << Label(cpu, example, types);
  }
}

TEST(KernelTypesTest, EveryInputOfEveryKernelIsInAnExample) {
  std::map<std::pair<std::string, std::string>, size_t> inputs;
  for (const Example& example : AllExamples()) {
    size_t& most = inputs[{example.domain, example.op}];
    most = std::max(most, example.inputs.size());
  }
  for (const Backend& backend : Backends()) {
    for (const auto& name : backend.registry.Names()) {
      ASSERT_TRUE(inputs.count(name)) << name.first << "." << name.second << " has no example";
      const Signature& signature = backend.registry.Find(name.first, name.second)->signature;
      EXPECT_GE(inputs[name], signature.inputs.size()) << name.first << "." << name.second;
      EXPECT_EQ(signature.inputs.empty(), signature.max_inputs == 0)
          << name.first << "." << name.second << " declares no types";
      if (signature.max_inputs == kAnyNumber) continue;
      EXPECT_GE(static_cast<int>(inputs[name]), signature.max_inputs)
          << name.first << "." << name.second << ": an optional input is in no example";
    }
  }
}

}  // namespace
}  // namespace cohort
