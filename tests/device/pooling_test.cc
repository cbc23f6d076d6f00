// Max pooling of values that compare in their own way, and of equal ones: the fast kernels choose
// as the reference does, value by value.

#include <cmath>
#include <limits>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

struct Images {
  Shape shape;
  Tensor x;
  Tensor scale;  // of the result, so that each of its elements has a gradient of its own
};

// Few values, so that squares have equal ones; one in four is zero of either sign, infinite or NaN.
Images Draw(const Shape& shape, uint64_t seed) {
  Images images = {
      shape, Tensor(DType::kFloat32, shape),
      Tensor(DType::kFloat32, {shape.dim(0), shape.dim(1), shape.dim(2) / 2, shape.dim(3) / 2})};
  SequenceRng rng(seed);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, std::nanf("")};
  for (int64_t i = 0; i < images.x.num_elements(); ++i) {
    images.x.mutable_data<float>()[i] =
        rng.Below(4) == 0 ? special[rng.Below(5)] : static_cast<float>(rng.Below(3));
  }
  for (int64_t i = 0; i < images.scale.num_elements(); ++i) {
    images.scale.mutable_data<float>()[i] = static_cast<float>(i + 1);
  }
  return images;
}

// The largest of squares of two, and what is given to each element of x.
std::vector<Tensor> RunOn(const Backend& backend, const Images& images) {
  GraphBuilder graph("pooling");
  const std::string x = graph.Input("x", DType::kFloat32, images.shape.dims());
  const std::string dy = graph.Input("dy", DType::kFloat32, images.scale.shape().dims());
  const std::vector<onnx::AttributeProto> window = {IntsAttribute("kernel_shape", {2, 2}),
                                                    IntsAttribute("strides", {2, 2})};
  graph.Output(graph.Op("MaxPool", {x}, window));
  graph.Output(graph.Op("MaxPoolGrad", {dy, x}, window, kCohortDomain));
  const auto model = graph.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  auto program = CompileProgram(*model, backend.registry);
  EXPECT_TRUE(program.ok()) << program.status();
  const auto outputs =
      ProgramRunner(*std::move(program)).Run({images.x, images.scale}, RunContext{});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.value_or(std::vector<Tensor>());
}

void ExpectSameValues(const Tensor& fast, const Tensor& reference) {
  ASSERT_EQ(fast.TypeString(), reference.TypeString());
  for (int64_t i = 0; i < fast.num_elements(); ++i) {
    const float a = fast.data<float>()[i];
    const float b = reference.data<float>()[i];
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
        << "element " << i << ": " << a << " instead of " << b;
  }
}

TEST(PoolingTest, SquaresOfSpecialAndEqualValuesChooseAsTheReferenceDoes) {
  const Shape shapes[] = {{2, 3, 26, 26}, {2, 2, 27, 29}, {3, 1, 2, 2},
                          {1, 2, 2, 3},   {1, 1, 3, 70},  {1, 1, 64, 2}};
  uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.ToString());
    const Images images = Draw(shape, ++seed);
    const std::vector<Tensor> fast = RunOn(CpuBackend(), images);
    const std::vector<Tensor> reference = RunOn(ReferenceBackend(), images);
    ASSERT_EQ(fast.size(), 2U);
    ASSERT_EQ(reference.size(), 2U);
    for (size_t i = 0; i < fast.size(); ++i) ExpectSameValues(fast[i], reference[i]);
  }
}

// A NaN takes the gradient from numbers and from earlier NaNs.
TEST(PoolingTest, TheLastNaNOfAWindowGetsTheGradient) {
  const float nan = std::nanf("");
  const Images images = {{1, 1, 2, 4},
                         Tensor::FromVector<float>({nan, 5, 5, nan, nan, 7, 5, 5}, {1, 1, 2, 4}),
                         Tensor::FromVector<float>({2, 3}, {1, 1, 1, 2})};
  const std::vector<float> expected = {0, 0, 0, 3, 2, 0, 0, 0};
  for (const Backend& backend : {CpuBackend(), ReferenceBackend()}) {
    const std::vector<Tensor> outputs = RunOn(backend, images);
    ASSERT_EQ(outputs.size(), 2U);
    const auto dx = outputs[1].span<float>();
    EXPECT_EQ(std::vector<float>(dx.begin(), dx.end()), expected) << backend.name;
  }
}

}  // namespace
}  // namespace cohort
