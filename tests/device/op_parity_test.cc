// Every operator on the CPU backend and on a device against the reference, one line per case, on
// random values. The same table checks that a second run gives the same bits, and that each
// registered operator has a case.

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"
#include "tests/device/op_parity_cases.h"

namespace cohort {
namespace {

Tensor RandomTensor(const OpInput& input, SequenceRng& rng) {
  Tensor tensor(DType::kFloat32, input.shape);
  float* data = tensor.mutable_data<float>();
  const int64_t classes = input.shape.rank() > 0 ? input.shape.dim(input.shape.rank() - 1) : 1;
  const RandomStream normal(rng.Next(), "values");
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t at = static_cast<uint64_t>(i);
    if (input.fill == OpFill::kNormal) data[i] = normal.Normal(at);
    if (input.fill == OpFill::kPositive) data[i] = 0.1f + 3 * normal.Uniform(at);
    if (input.fill == OpFill::kProbability) data[i] = 0.05f + normal.Uniform(at) / 4;
    if (input.fill == OpFill::kOneHot) {
      const uint64_t label =
          normal.Below(at / static_cast<uint64_t>(classes), static_cast<uint64_t>(classes));
      data[i] = at % static_cast<uint64_t>(classes) == label ? 1 : 0;
    }
  }
  if (input.fill == OpFill::kLabel) {
    Tensor labels(DType::kInt64, input.shape);
    for (int64_t i = 0; i < labels.num_elements(); ++i) {
      labels.mutable_data<int64_t>()[i] = static_cast<int64_t>(rng.Below(3));
    }
    return labels;
  }
  if (input.fill == OpFill::kMask) {
    Tensor mask(DType::kBool, input.shape);
    for (int64_t i = 0; i < mask.num_elements(); ++i) mask.mutable_data<bool>()[i] = rng.Below(2);
    return mask;
  }
  return tensor;
}

const Tensor kTrue = Tensor::Scalar<bool>(true);

void AddArithmetic(std::vector<OpCase>& cases) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Equal"}) {
    for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{7, 33}, {7, 33}},
                                                                   {{7, 33}, {33}},
                                                                   {{7, 33}, {7, 1}},
                                                                   {{}, {5, 3}},
                                                                   {{4, 1, 5}, {3, 1}},
                                                                   {{0, 4}, {4}},
                                                                   {{1, 1}, {1}},
                                                                   {{2, 3, 4, 5}, {3, 1, 5}}}) {
      cases.push_back({kOnnx, op, {{a}, {b, OpFill::kPositive}}});
    }
  }
}

void AddUnary(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{5, 67}, Shape{129}}) {
    for (const char* op : {"Neg", "Exp", "Relu", "Sigmoid", "Tanh", "Identity"}) {
      cases.push_back({kOnnx, op, {{shape}}});
    }
    for (const char* op : {"Sqrt", "Log"}) {
      cases.push_back({kOnnx, op, {{shape, OpFill::kPositive}}});
    }
    for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad"}) {
      cases.push_back({kCohort, op, {{shape}, {shape}}});
    }
    cases.push_back({kCohort, "ZerosLike", {{shape}}});
    cases.push_back({kOnnx, "Cast", {{shape}}, {IntAttribute("to", 7)}});
  }
}

void AddProducts(std::vector<OpCase>& cases) {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{5, 7}, {7, 3}},
                                                                 {{1, 64}, {64, 1}},
                                                                 {{7}, {7, 3}},
                                                                 {{5, 7}, {7}},
                                                                 {{7}, {7}},
                                                                 {{0, 7}, {7, 3}},
                                                                 {{5, 0}, {0, 3}},
                                                                 {{2, 5, 7}, {7, 3}},
                                                                 {{2, 1, 5, 7}, {3, 7, 2}},
                                                                 {{128, 33}, {33, 17}}}) {
    cases.push_back({kOnnx, "MatMul", {{a}, {b}}});
  }
  for (const int64_t columns : {1, 2, 3, 4, 5}) {  // few of them have loops of their own
    cases.push_back({kOnnx, "MatMul", {{{67, 45}}, {{45, columns}}}});
    cases.push_back({kOnnx, "Gemm", {{{67, 45}}, {{67, columns}}}, {IntAttribute("transA", 1)}});
  }
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::vector<onnx::AttributeProto> flags = {IntAttribute("transA", ta),
                                                       IntAttribute("transB", tb)};
      const Shape a = ta ? Shape{7, 5} : Shape{5, 7};
      const Shape b = tb ? Shape{3, 7} : Shape{7, 3};
      cases.push_back({kOnnx, "Gemm", {{a}, {b}}, flags});
      for (const Shape& c : {Shape{3}, Shape{5, 1}, Shape{}, Shape{5, 3}}) {
        std::vector<onnx::AttributeProto> all = flags;
        all.push_back(FloatAttribute("alpha", 0.5f));
        all.push_back(FloatAttribute("beta", 2));
        cases.push_back({kOnnx, "Gemm", {{a}, {b}, {c}}, all});
      }
    }
  }
  cases.push_back({kOnnx, "Gemm", {{{4, 0}}, {{0, 2}}, {{2}}}});
  cases.push_back({kOnnx, "Gemm", {{{0, 3}}, {{3, 2}}, {{2}}}});
}

void AddReductions(std::vector<OpCase>& cases) {
  struct Axes {
    Shape shape;
    std::vector<int64_t> axes;
    Shape kept;
    Shape dropped;
  };
  for (const Axes& each : std::vector<Axes>{{{6, 35}, {0}, {1, 35}, {35}},
                                            {{6, 35}, {-1}, {6, 1}, {6}},
                                            {{6, 35}, {0, 1}, {1, 1}, {}},
                                            {{3, 4, 5}, {1}, {3, 1, 5}, {3, 5}},
                                            {{3, 4, 5}, {0, 2}, {1, 4, 1}, {4}},
                                            {{1, 1}, {0}, {1, 1}, {1}},
                                            {{0, 5}, {0}, {1, 5}, {5}}}) {
    for (const int64_t keep : {0, 1}) {
      const auto keep_dims = IntAttribute("keepdims", keep);
      const auto axes = IntsAttribute("axes", each.axes);
      const Shape grad = keep ? each.kept : each.dropped;
      const int64_t count = static_cast<int64_t>(each.axes.size());
      cases.push_back({kOnnx,
                       "ReduceSum",
                       {{each.shape}},
                       {keep_dims},
                       1,
                       {Tensor::FromVector<int64_t>(each.axes, Shape{count})}});
      cases.push_back({kOnnx, "ReduceMean", {{each.shape}}, {keep_dims, axes}});
      for (const int64_t mean : {0, 1}) {
        cases.push_back({kCohort,
                         "ReduceGrad",
                         {{grad}, {each.shape}},
                         {keep_dims, axes, IntAttribute("mean", mean)}});
      }
      if (each.shape.dim(0) == 0) continue;  // no largest element
      cases.push_back(
          {kOnnx, "ArgMax", {{each.shape}}, {keep_dims, IntAttribute("axis", each.axes[0])}});
    }
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {each.kept}}});
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {each.shape}}});
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {{}}}});
  }
}

// Rows of every length that has a loop of its own, and others; indices of both types.
void AddRows(std::vector<OpCase>& cases) {
  const auto by32 = Tensor::FromVector<int32_t>({6, 0, 3, 3, 1, 6}, {6});
  for (const int64_t width : {0, 1, 4, 8, 16, 31, 32, 40}) {
    const std::vector<Tensor> negative = {Tensor::FromVector<int64_t>({-1, 0, -7, 3}, {2, 2})};
    cases.push_back({kOnnx, "Gather", {{{7, width}}, {{3, 2}, OpFill::kLabel}}});
    cases.push_back({kOnnx, "Gather", {{{7, width}}}, {}, 1, {by32}});
    cases.push_back({kOnnx, "Gather", {{{7, width}}}, {}, 1, negative});
    cases.push_back({kCohort,
                     "GatherGrad",
                     {{{40, width}, OpFill::kNormal}, {{40}, OpFill::kLabel}, {{7, width}}}});
    cases.push_back({kOnnx,
                     "Concat",
                     {{{19, width}}, {{19, 3}}, {{19, width}}, {{19, 8}}},
                     {IntAttribute("axis", 1)}});
    cases.push_back({kCohort,
                     "ConcatGrad",
                     {{{19, 2 * width + 3}}, {{19, width}}, {{19, 3}}, {{19, width}}},
                     {IntAttribute("axis", -1)},
                     3});
  }
  const auto ints = Tensor::FromVector<int32_t>({1, 2, 3, 4}, {2, 2});
  cases.push_back({kOnnx, "Concat", {}, {IntAttribute("axis", 0)}, 1, {ints, ints}});
  cases.push_back({kOnnx, "Concat", {{{2, 3, 4}}, {{2, 5, 4}}}, {IntAttribute("axis", 1)}});
}

void AddMovement(std::vector<OpCase>& cases) {
  cases.push_back(
      {kOnnx, "Reshape", {{{4, 6}}}, {}, 1, {Tensor::FromVector<int64_t>({2, -1}, {2})}});
  cases.push_back({kOnnx, "Flatten", {{{4, 3, 2}}}, {IntAttribute("axis", 1)}});
  cases.push_back({kCohort, "ReshapeLike", {{{4, 3}}, {{2, 6}}}});
  cases.push_back({kOnnx, "Transpose", {{{4, 3, 2}}}, {IntsAttribute("perm", {2, 0, 1})}});
  cases.push_back({kOnnx, "Transpose", {{{0, 3}}}});
  cases.push_back({kOnnx, "Transpose", {{{35, 50}}}});
  cases.push_back({kOnnx, "Transpose", {{{3, 1, 5}}}, {IntsAttribute("perm", {1, 0, 2})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5}}}, {IntsAttribute("perm", {1, 0, 2})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5, 6}}}, {IntsAttribute("perm", {0, 2, 3, 1})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5, 6}}}, {IntsAttribute("perm", {3, 2, 0, 1})}});
  cases.push_back({kOnnx, "Size", {{{3, 4}}}});
  cases.push_back({kCohort, "AllReduce", {{{3, 4}}}, {StringAttribute("reduction", "sum")}});
  cases.push_back({kCohort, "AllGather", {{{3, 4}}}, {IntAttribute("axis", -1)}});
  cases.push_back({kCohort, "AllGatherGrad", {{{3, 4}}, {{3, 4}}}, {IntAttribute("axis", 1)}});
  cases.push_back({kOnnx, "Concat", {{{2, 3}}, {{2, 0}}, {{2, 4}}}, {IntAttribute("axis", 1)}});
  cases.push_back(
      {kCohort, "ConcatGrad", {{{2, 7}}, {{2, 3}}, {{2, 4}}}, {IntAttribute("axis", -1)}, 2});
  for (const float limit : {0.5f, 1e6f}) {
    const auto norm = FloatAttribute("clip_norm", limit);
    cases.push_back({kCohort, "ClipByNorm", {{{7, 33}}, {{}}, {{0, 4}}}, {norm}, 3});
    cases.push_back({kCohort, "ClipByValue", {{{7, 33}}}, {FloatAttribute("clip_value", limit)}});
  }
  cases.push_back(
      {kOnnx, "Gather", {{{3, 5}}, {{2, 2}, OpFill::kLabel}}, {IntAttribute("axis", 0)}});
  cases.push_back({kOnnx, "Gather", {{{2, 4}}, {{0}, OpFill::kLabel}}, {IntAttribute("axis", 1)}});
  cases.push_back({kCohort, "GatherGrad", {{{4, 5}}, {{4}, OpFill::kLabel}, {{3, 5}}}});
  AddRows(cases);
  cases.push_back({kOnnx,
                   "OneHot",
                   {{{4}, OpFill::kLabel}},
                   {IntAttribute("axis", -1)},
                   1,
                   {Tensor::Scalar<int64_t>(3), Tensor::FromVector<float>({0, 1}, {2})}});
  onnx::AttributeProto value;
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = ToTensorProto("value", Tensor::FromVector<float>({1, 2}, {2}));
  cases.push_back({kOnnx, "Constant", {}, {value}});
  for (const Shape& shape : {Shape{0, 4}, Shape{1, 1}, Shape{9, 13}}) {
    cases.push_back({kOnnx, "Dropout", {{shape}}, {}, 2, {Tensor::Scalar<float>(0.4f), kTrue}});
    cases.push_back({kCohort,
                     "DropoutGrad",
                     {{shape}, {shape, OpFill::kMask}},
                     {},
                     1,
                     {Tensor::Scalar<float>(0.4f), kTrue}});
  }
}

std::vector<OpCase> AllCases() {
  std::vector<OpCase> cases;
  AddArithmetic(cases);
  AddUnary(cases);
  AddProducts(cases);
  AddReductions(cases);
  AddMovement(cases);
  for (OpCase& each : LossOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : ImageOpCases()) cases.push_back(std::move(each));
  return cases;
}

std::string Label(const OpCase& each) {
  std::string label = each.domain + "." + each.op;
  for (const OpInput& input : each.inputs) label += " " + input.shape.ToString();
  for (const auto& attribute : each.attributes) label += " " + attribute.ShortDebugString();
  return label;
}

onnx::ModelProto MakeModel(const OpCase& each, const std::vector<Tensor>& inputs) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(kOnnxOpset);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_name("node");
  node.set_op_type(each.op);
  node.set_domain(each.domain);
  for (const auto& attribute : each.attributes) *node.add_attribute() = attribute;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.add_input("x" + std::to_string(i));
    onnx::ValueInfoProto& input = *model.mutable_graph()->add_input();
    input.set_name(node.input(static_cast<int>(i)));
    // A device takes only what is known to be of its types.
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int32_t>(inputs[i].dtype()));
    for (const int64_t dim : inputs[i].shape().dims()) {
      type.mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }
  for (int i = 0; i < each.outputs; ++i) {
    node.add_output("y" + std::to_string(i));
    model.mutable_graph()->add_output()->set_name(node.output(i));
  }
  return model;
}

std::vector<Tensor> RunOn(const Backend& backend, const OpCase& each,
                          const std::vector<Tensor>& inputs) {
  auto runner = MakeRunner(backend, MakeModel(each, inputs));
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  auto outputs = (*runner)->Run(inputs, RunContext{7, 3, 5});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  auto again = (*runner)->Run(inputs, RunContext{7, 3, 5});
  if (!outputs.ok() || !again.ok()) return {};
  for (size_t i = 0; i < outputs->size(); ++i) {
    const size_t bytes = (*outputs)[i].num_bytes();
    EXPECT_EQ(std::memcmp((*outputs)[i].raw(), (*again)[i].raw(), bytes), 0) << "other bits";
  }
  return *outputs;
}

void ExpectSame(const Tensor& actual, const Tensor& expected, double slack) {
  ASSERT_EQ(actual.TypeString(), expected.TypeString());
  if (expected.dtype() != DType::kFloat32) {
    EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.num_bytes()), 0);
    return;
  }
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const float a = actual.data<float>()[i];
    const float e = expected.data<float>()[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    ASSERT_NEAR(a, e, 2e-6 * slack + 1e-5 * std::abs(e)) << "element " << i;
  }
}

void CheckEqualsReference(const Backend& backend) {
  const uint64_t seed = 20240612;
  SCOPED_TRACE("seed " + std::to_string(seed) + ", set in this test");
  SequenceRng rng(seed);
  const Backend reference = ReferenceBackend();
  for (const OpCase& each : AllCases()) {
    SCOPED_TRACE(Label(each));
    std::vector<Tensor> inputs;
    for (const OpInput& input : each.inputs) inputs.push_back(RandomTensor(input, rng));
    inputs.insert(inputs.end(), each.constants.begin(), each.constants.end());
    const std::vector<Tensor> expected = RunOn(reference, each, inputs);
    const std::vector<Tensor> actual = RunOn(backend, each, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ExpectSame(actual[i], expected[i], each.slack);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OpParityTest, CpuEqualsReference) { CheckEqualsReference(CpuBackend()); }

TEST(OpParityTest, DeviceEqualsReference) { CheckEqualsReference(CudaBackend()); }

TEST(OpParityTest, EveryOperatorHasACase) {
  std::set<std::pair<std::string, std::string>> with_case;
  for (const OpCase& each : AllCases()) with_case.insert({each.domain, each.op});
  for (const Backend& backend : {CpuBackend(), ReferenceBackend()}) {
    for (const auto& [domain, op] : backend.registry.Names()) {
      if (domain == "cohort.runtime") continue;  // fusion_test compares these with the plain graph
      EXPECT_TRUE(with_case.count({domain, op})) << domain << "." << op << " has no case";
    }
  }
}

TEST(OpParityTest, BothBackendsHaveTheSameOperators) {
  const auto names = [](const Backend& backend) {
    std::set<std::string> result;
    for (const auto& [domain, op] : backend.registry.Names()) {
      if (domain != "cohort.runtime") result.insert(domain + "." + op);
    }
    return result;
  };
  EXPECT_EQ(names(CpuBackend()), names(ReferenceBackend()));
}

}  // namespace
}  // namespace cohort
