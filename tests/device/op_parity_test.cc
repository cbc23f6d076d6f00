// Every operator on the CPU backend and on a device against the reference, one line per case, on
// random values. The same table checks that a second run gives the same bits, that so does one
// between other operators under a memory plan, and that each registered operator has a case.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/run/fusion.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"
#include "tests/device/op_parity_cases.h"
#include "tests/device/planned_run.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

Tensor RandomTensor(const OpInput& input, SequenceRng& rng) {
  if (input.dtype == DType::kUndefined) return Tensor();
  Tensor tensor(DType::kFloat32, input.shape);
  float* data = tensor.mutable_data<float>();
  const int64_t classes = input.shape.rank() > 0 ? input.shape.dim(input.shape.rank() - 1) : 1;
  const RandomStream normal(rng.Next(), "values");
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t at = static_cast<uint64_t>(i);
    if (input.fill == OpFill::kNormal) data[i] = normal.Normal(at);
    if (input.fill == OpFill::kPositive) data[i] = 0.1f + 3 * normal.Uniform(at);
    if (input.fill == OpFill::kProbability) data[i] = 0.05f + normal.Uniform(at) / 4;
    if (input.fill == OpFill::kLow) data[i] = normal.Normal(at) - 300;
    if (input.fill == OpFill::kSpecial) {
      data[i] = at % 31 == 7    ? std::numeric_limits<float>::quiet_NaN()
                : at % 37 == 11 ? std::numeric_limits<float>::infinity()
                : at % 41 == 13 ? -std::numeric_limits<float>::infinity()
                : at % 11 == 3  ? 0
                                : normal.Normal(at);
    }
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
    node.add_input(inputs[i].has_value() ? "x" + std::to_string(i) : "");
    if (!inputs[i].has_value()) continue;
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

// Returns the tensors that have a value, which a model takes as its inputs.
std::vector<Tensor> Present(std::vector<Tensor> inputs) {
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [](const Tensor& input) { return !input.has_value(); }),
               inputs.end());
  return inputs;
}

std::vector<Tensor> RunOn(const Backend& backend, const onnx::ModelProto& model,
                          const std::vector<Tensor>& given) {
  const std::vector<Tensor> inputs = Present(given);
  auto runner = MakeRunner(backend, model);
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
  if (model.graph().node_size() == 1) {  // what a fused operator stands for has several
    PlannedRun(model, given, *outputs).Check(backend, RunContext{7, 3, 5});
  }
  return *outputs;
}

// Of one element, from the expected value.
using Tolerance = std::function<double(size_t output, int64_t element, double expected)>;

void ExpectSame(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                const Tolerance& tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t output = 0; output < expected.size(); ++output) {
    const Tensor& wanted = expected[output];
    ASSERT_EQ(actual[output].TypeString(), wanted.TypeString());
    if (wanted.dtype() != DType::kFloat32) {
      EXPECT_EQ(std::memcmp(actual[output].raw(), wanted.raw(), wanted.num_bytes()), 0);
      continue;
    }
    for (int64_t i = 0; i < wanted.num_elements(); ++i) {
      const float a = actual[output].data<float>()[i];
      const float e = wanted.data<float>()[i];
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      ASSERT_NEAR(a, e, tolerance(output, i, static_cast<double>(e))) << "element " << i;
    }
  }
}

Tolerance Usual(double slack) {
  return [slack](size_t, int64_t, double expected) {
    return 2e-6 * slack + 1e-5 * std::abs(expected);
  };
}

// How many products are added up for one element, by operators for which a GPU's library adds them
// up in float32; 0 for all others, which add up in double there, too.
int64_t ProductsOf(const OpCase& each, const std::vector<Tensor>& inputs) {
  if (each.op == "MatMul" || each.op == "MatMulBias" || each.op == "Gemm") {
    const Shape& a = inputs[0].shape();
    const bool transposed = each.op == "Gemm" && each.attributes.size() > 0 &&
                            each.attributes[0].name() == "transA" && each.attributes[0].i() == 1;
    return a.dim(transposed ? 0 : a.rank() - 1);
  }
  const auto of_channel = [](const Tensor& tensor) {
    return tensor.num_elements() / std::max<int64_t>(tensor.shape().dim(1), 1);
  };
  if (each.op == "Conv") return inputs[1].num_elements() / inputs[1].shape().dim(0);
  if (each.op == "ConvInputGrad") return of_channel(inputs[1]);
  if (each.op == "ConvWeightGrad") return of_channel(inputs[0]);
  return 0;
}

// A sum of n products in float32, in any order, is off by no more than n * 2^-24 of the sum of the
// products' absolute values: what the operator gives for its inputs' absolute values, as it is
// linear in each. The constant is for what comes after the sum, and for convolutions by Winograd's
// algorithm, whose transforms lose up to 100 roundings where sums are short.
Tolerance OfProducts(int64_t products, const std::vector<Tensor>& of_absolute_values) {
  const double share = std::ldexp(static_cast<double>(products) + 100, -24);
  return [share, of_absolute_values](size_t output, int64_t element, double) {
    return share * static_cast<double>(of_absolute_values[output].data<float>()[element]);
  };
}

std::vector<Tensor> AbsoluteValues(std::vector<Tensor> inputs) {
  for (Tensor& input : inputs) {
    if (input.dtype() != DType::kFloat32) continue;
    input = input.Clone();
    float* const values = input.mutable_data<float>();
    for (int64_t i = 0; i < input.num_elements(); ++i) values[i] = std::abs(values[i]);
  }
  return inputs;
}

std::vector<Tensor> InputsOf(const OpCase& each, SequenceRng& rng) {
  std::vector<Tensor> inputs;
  for (const OpInput& input : each.inputs) inputs.push_back(RandomTensor(input, rng));
  inputs.insert(inputs.end(), each.constants.begin(), each.constants.end());
  return inputs;
}

// `plain` gives what is expected of the case for its inputs.
using Expected = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

void CheckCase(const Backend& backend, const OpCase& each, const std::vector<Tensor>& inputs,
               const Expected& plain) {
  const std::vector<Tensor> expected = plain(inputs);
  const std::vector<Tensor> actual = RunOn(backend, MakeModel(each, inputs), inputs);
  const int64_t products = backend.is_gpu ? ProductsOf(each, inputs) : 0;
  const Tolerance tolerance =
      products == 0 ? Usual(each.slack) : OfProducts(products, plain(AbsoluteValues(inputs)));
  ExpectSame(actual, expected, tolerance);
}

constexpr uint64_t kSeed = 20240612;

void CheckEqualsReference(const Backend& backend, const std::vector<OpCase>& cases) {
  SCOPED_TRACE("seed " + std::to_string(kSeed) + ", set in this test");
  SequenceRng rng(kSeed);
  const Backend reference = ReferenceBackend();
  for (const OpCase& each : cases) {
    SCOPED_TRACE(Label(each));
    const std::vector<Tensor> inputs = InputsOf(each, rng);
    CheckCase(backend, each, inputs, [&](const std::vector<Tensor>& given) {
      return RunOn(reference, MakeModel(each, given), given);
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OpParityTest, CpuEqualsReference) { CheckEqualsReference(CpuBackend(), AllOpCases()); }

using DeviceParityTest = OnCudaDevices;

TEST_P(DeviceParityTest, DeviceEqualsReference) {
  CheckEqualsReference(DeviceBackend(*table(), GetParam()), AllOpCases());
}

TEST_P(DeviceParityTest, DeviceEqualsReferenceWhereItHasBranches) {
  CheckEqualsReference(DeviceBackend(*table(), GetParam()), DeviceOpCases());
}

// The comparison with a GPU, where there is none.
TEST(OpParityTest, TheBoundOfProductsHoldsForTheStandIn) {
  Backend backend = DeviceBackend(MakeCudaStandIn(1, uint64_t{256} << 20), CudaDevices::kStandIn);
  backend.is_gpu = true;
  CheckEqualsReference(backend, AllOpCases());
}

// Of tensor cores, which round each float32 to 10 bits (TF32), it is the bound that tells.
TEST(OpParityTest, TheBoundOfProductsIsNoneForTf32) {
  SequenceRng rng(kSeed);
  const Backend reference = ReferenceBackend();
  for (const OpCase& each : {OpCase{kOnnx, "MatMul", {{{64, 67}}, {{67, 33}}}},
                             OpCase{kOnnx, "Conv", {{{3, 16, 13, 13}}, {{32, 16, 3, 3}}}}}) {
    const std::vector<Tensor> inputs = InputsOf(each, rng);
    std::vector<Tensor> rounded = inputs;
    for (Tensor& input : rounded) {
      input = input.Clone();
      for (int64_t i = 0; i < input.num_elements(); ++i) {
        float& value = input.mutable_data<float>()[i];
        value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000) & ~0x1fffu);
      }
    }
    const auto run = [&](const std::vector<Tensor>& given) {
      return RunOn(reference, MakeModel(each, given), given)[0];
    };
    const Tensor expected = run(inputs);
    const Tensor actual = run(rounded);
    const Tolerance tolerance = OfProducts(ProductsOf(each, inputs), {run(AbsoluteValues(inputs))});
    int64_t beyond = 0;
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      const double off = std::abs(static_cast<double>(actual.data<float>()[i]) -
                                  static_cast<double>(expected.data<float>()[i]));
      beyond += off > tolerance(0, i, 0) ? 1 : 0;
    }
    EXPECT_GT(beyond, expected.num_elements() / 10) << each.op;
  }
}

// The nodes that MatMulBias stands for (fusion.h), on the reference.
onnx::ModelProto PlainMatMulBias(const std::vector<Tensor>& inputs, bool relu) {
  GraphBuilder builder("plain");
  std::vector<std::string> names;
  for (const Tensor& input : inputs) {
    const std::string name = "x" + std::to_string(names.size());
    names.push_back(builder.Input(name, DType::kFloat32, input.shape().dims()));
  }
  std::string y = builder.Op("Add", {builder.Op("MatMul", {names[0], names[1]}), names[2]});
  if (relu) y = builder.Op("Relu", {y});
  builder.Output(y);
  return *builder.Finish();
}

void CheckMatMulBias(const Backend& backend) {
  SequenceRng rng(kSeed);
  const Backend reference = ReferenceBackend();
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{5, 7}, {7, 3}},
                                                                 {{1, 1}, {1, 1}},
                                                                 {{0, 7}, {7, 3}},
                                                                 {{5, 0}, {0, 3}},
                                                                 {{5, 7}, {7, 0}},
                                                                 {{7}, {7, 3}},
                                                                 {{2, 3, 7}, {7, 4}},
                                                                 {{128, 33}, {33, 17}}}) {
    for (const bool relu : {false, true}) {
      const OpInput bias = {Shape{b.dim(1)}, b.dim(1) > 10 ? OpFill::kSpecial : OpFill::kNormal};
      OpCase each = {kRuntimeDomain, "MatMulBias", {{a}, {b}, bias}};
      if (relu) each.attributes.push_back(StringAttribute("activation", "Relu"));
      SCOPED_TRACE(Label(each));
      CheckCase(backend, each, InputsOf(each, rng), [&](const std::vector<Tensor>& given) {
        return RunOn(reference, PlainMatMulBias(given, relu), given);
      });
    }
  }
}

TEST(OpParityTest, CpuMatMulBiasEqualsTheReferencesNodes) { CheckMatMulBias(CpuBackend()); }

TEST_P(DeviceParityTest, MatMulBiasEqualsTheReferencesNodes) {
  CheckMatMulBias(DeviceBackend(*table(), GetParam()));
}

COHORT_ON_CUDA_DEVICES(DeviceParityTest);

TEST(OpParityTest, EveryOperatorHasACase) {
  std::set<std::pair<std::string, std::string>> with_case;
  for (const OpCase& each : AllOpCases()) with_case.insert({each.domain, each.op});
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
