// Products in bfloat16: they are those of the rounded factors, summed in float32, where the
// processor has such products, and else those of float32.

#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/rng.h"
#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/product_precision.h"
#include "common/runtime/kernels/cpu/gemm.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

Tensor Draw(const Shape& shape, uint64_t seed) {
  Tensor tensor(DType::kFloat32, shape);
  const RandomStream stream(seed, "values");
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = stream.Normal(static_cast<uint64_t>(i));
  }
  return tensor;
}

// Rounds to the nearest float whose lower half is zero, by arithmetic of doubles alone.
float Rounded(float x) {
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(static_cast<double>(x), &exponent);
  const double unit = std::ldexp(1.0, exponent - 8);  // bfloat16 has 8 significant bits
  return static_cast<float>(std::nearbyint(static_cast<double>(x) / unit) * unit);
}

std::vector<Tensor> AllRounded(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) {
    Tensor rounded(DType::kFloat32, tensor.shape());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      rounded.mutable_data<float>()[i] = Rounded(tensor.data<float>()[i]);
    }
    tensor = rounded;
  }
  return tensors;
}

struct ProductCase {
  const char* name;
  const char* op;
  const char* domain;
  std::vector<Shape> inputs;
  std::vector<onnx::AttributeProto> attributes;
};

onnx::ModelProto ModelOf(const ProductCase& one, ProductPrecision precision) {
  GraphBuilder graph("product");
  std::vector<std::string> inputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    inputs.push_back(graph.Input(std::string(1, static_cast<char>('a' + i)), DType::kFloat32,
                                 one.inputs[i].dims()));
  }
  graph.SetProductPrecision(precision);
  graph.Output(graph.Op(one.op, inputs, one.attributes, one.domain));
  auto model = graph.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  return model.value_or(onnx::ModelProto());
}

Tensor RunOn(const Backend& backend, const onnx::ModelProto& model,
             const std::vector<Tensor>& inputs) {
  auto runner = MakeRunner(backend, model);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return Tensor();
  const auto outputs = (*runner)->Run(inputs, RunContext{});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? outputs->at(0) : Tensor();
}

class Bfloat16Product : public testing::TestWithParam<ProductCase> {};

TEST_P(Bfloat16Product, IsThatOfTheRoundedFactors) {
  const ProductCase& one = GetParam();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) inputs.push_back(Draw(one.inputs[i], i + 1));
  const Tensor actual = RunOn(CpuBackend(), ModelOf(one, ProductPrecision::kBfloat16), inputs);
  const bool rounds = ProcessorHasBfloat16();
  const onnx::ModelProto exact = ModelOf(one, ProductPrecision::kFloat32);
  const Tensor expected = RunOn(ReferenceBackend(), exact, rounds ? AllRounded(inputs) : inputs);
  ASSERT_EQ(actual.TypeString(), expected.TypeString());
  double square = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    square += std::pow(static_cast<double>(expected.data<float>()[i]), 2);
  }
  const double usual = std::sqrt(square / static_cast<double>(expected.num_elements()));
  bool differs = false;
  const Tensor unrounded = RunOn(ReferenceBackend(), exact, inputs);
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double value = static_cast<double>(actual.data<float>()[i]);
    ASSERT_NEAR(value, static_cast<double>(expected.data<float>()[i]), 2e-5 * usual) << i;
    differs |= std::fabs(value - static_cast<double>(unrounded.data<float>()[i])) > 1e-4 * usual;
  }
  EXPECT_EQ(differs, rounds) << "whether anything was rounded";
}

INSTANTIATE_TEST_SUITE_P(
    Products, Bfloat16Product,
    testing::Values(ProductCase{"MatMul", "MatMul", "", {{67, 130}, {130, 71}}, {}},
                    ProductCase{"Stack", "MatMul", "", {{3, 67, 130}, {3, 130, 71}}, {}},
                    ProductCase{"Gemm",
                                "Gemm",
                                "",
                                {{130, 67}, {71, 130}},
                                {IntAttribute("transA", 1), IntAttribute("transB", 1),
                                 FloatAttribute("alpha", 0.5f)}},
                    ProductCase{"Einsum",
                                "Einsum",
                                "",
                                {{2, 67, 130}, {2, 71, 130}},
                                {StringAttribute("equation", "bmk,bnk->bmn")}},
                    ProductCase{"Conv",
                                "Conv",
                                "",
                                {{4, 16, 12, 12}, {32, 16, 3, 3}},
                                {IntsAttribute("pads", {1, 1, 1, 1})}},
                    ProductCase{"ConvInGroups",
                                "Conv",
                                "",
                                {{4, 16, 12, 12}, {32, 8, 3, 3}},
                                {IntAttribute("group", 2)}}),
    [](const auto& info) { return std::string(info.param.name); });

// A product that adds to what is there does not round that.
TEST(Bfloat16ProductTest, AddsToWhatIsThereInFloat32) {
  const Tensor a = Draw({70, 130}, 1), b = Draw({130, 70}, 2);
  const Tensor start = Draw({70, 72}, 3);
  Tensor sum = Draw({70, 72}, 3), product = Tensor::Zeros(DType::kFloat32, {70, 72});
  const GemmSettings settings{1, ProductPrecision::kBfloat16};
  const auto add = [&](Tensor& c, float beta) {
    Gemm({70, 70, 130}, {a.data<float>(), 130}, {b.data<float>(), 70},
         {c.mutable_data<float>(), 72}, {1, beta}, settings);
  };
  add(sum, 1);
  add(product, 0);
  for (int64_t i = 0; i < 70 * 72; ++i) {
    const float before = start.data<float>()[i];
    const float added = i % 72 < 70 ? product.data<float>()[i] : 0;
    ASSERT_NEAR(sum.data<float>()[i], before + added, 1e-4f) << i;
  }
}

TEST(Bfloat16ProductTest, KeepsInfinitiesAndNansApart) {
  const int64_t n = 80;
  Tensor a = Draw({n, n}, 1);
  const Tensor b = Draw({n, n}, 2);
  uint32_t low_nan = 0x7f800001;  // a NaN whose upper half alone is an infinity
  std::memcpy(a.mutable_data<float>() + 2 * n, &low_nan, sizeof(low_nan));
  a.mutable_data<float>()[3 * n] = std::numeric_limits<float>::infinity();
  Tensor c = Tensor::Zeros(DType::kFloat32, {n, n});
  Gemm({n, n, n}, {a.data<float>(), n}, {b.data<float>(), n}, {c.mutable_data<float>(), n}, {},
       {1, ProductPrecision::kBfloat16});
  EXPECT_TRUE(std::isfinite(c.data<float>()[0]));
  EXPECT_TRUE(std::isnan(c.data<float>()[2 * n]));
  EXPECT_TRUE(std::isinf(c.data<float>()[3 * n]));
}

// The gradients of a marked product are marked, and so is a product fused with its bias.
TEST(ProductPrecisionTest, IsInheritedByGradients) {
  GraphBuilder graph("gradients");
  graph.Input("x", DType::kFloat32, {4, 5});
  graph.Input("w", DType::kFloat32, {5, 6});
  graph.SetProductPrecision(ProductPrecision::kBfloat16);
  const std::string y = graph.Op("MatMul", {"x", "w"});
  graph.SetProductPrecision(ProductPrecision::kFloat32);
  const std::string z = graph.Op("MatMul", {y, graph.Op("Transpose", {"w"})});
  const std::string loss = graph.Op("ReduceSum", {z}, {IntAttribute("keepdims", 0)});
  graph.Output(loss);
  const auto forward = graph.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  EXPECT_EQ(CountBfloat16Products(forward->graph()), 1);
  const auto backward = AddGradients(*forward, loss, {"x", "w"});
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_EQ(CountBfloat16Products(backward->model.graph()), 3);
}

}  // namespace
}  // namespace cohort
