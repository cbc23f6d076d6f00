// Convolutions keep primitives and workspaces from run to run, for every shape that comes by, and
// programs share them.

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kFilters = 17;  // of no block of any instruction set

Tensor Draw(const Shape& shape, uint64_t seed) {
  Tensor tensor(DType::kFloat32, shape);
  const RandomStream stream(seed, "values");
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = stream.Normal(static_cast<uint64_t>(i));
  }
  return tensor;
}

// Of x and w: the convolution, and both gradients of the sum of its squares.
std::shared_ptr<const CompiledProgram> Compile(const KernelRegistry& registry) {
  GraphBuilder graph("convolution");
  const std::string x = graph.Input("x", DType::kFloat32, {-1, kChannels, 9, 8});
  const std::string w = graph.Input("w", DType::kFloat32, {kFilters, kChannels, 3, 3});
  const auto pads = IntsAttribute("pads", {1, 1, 1, 1});
  const std::string y = graph.Op("Conv", {x, w}, {pads});
  graph.Output(y);
  graph.Output(graph.Op("ConvInputGrad", {y, w, x}, {pads}, kCohortDomain));
  graph.Output(graph.Op("ConvWeightGrad", {y, x, w}, {pads}, kCohortDomain));
  const auto model = graph.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  const auto program = CompileProgram(*model, registry);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.value_or(nullptr);
}

std::vector<Tensor> Inputs(int64_t batch) {
  return {Draw({batch, kChannels, 9, 8}, static_cast<uint64_t>(batch)),
          Draw({kFilters, kChannels, 3, 3}, 1)};
}

std::vector<Tensor> RunOf(ProgramRunner& runner, int64_t batch) {
  const auto outputs = runner.Run(Inputs(batch), RunContext{});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.value_or(std::vector<Tensor>());
}

bool SameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size() || a.empty()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].TypeString() != b[i].TypeString()) return false;
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].num_bytes()) != 0) return false;
  }
  return true;
}

// More batch sizes than primitives are kept, each again after all others.
TEST(ConvolutionTest, AnyShapeAgainGivesTheSameBits) {
  constexpr int64_t kBatches = 10;
  for (const int threads : {1, 2}) {
    KernelRegistry registry;
    RegisterCpuKernels(registry, threads);
    const auto program = Compile(registry);
    ProgramRunner runner(program);
    std::vector<std::vector<Tensor>> first;
    for (int64_t batch = 1; batch <= kBatches; ++batch) first.push_back(RunOf(runner, batch));
    for (int64_t batch = 1; batch <= kBatches; ++batch) {
      EXPECT_TRUE(SameBits(RunOf(runner, batch), first[static_cast<size_t>(batch) - 1]))
          << "batch " << batch << ", " << threads << " threads";
    }
  }
}

TEST(ConvolutionTest, FarFromTheReferenceByRoundingOnly) {
  const auto fast = Compile(CpuBackend().registry);
  const auto slow = Compile(ReferenceBackend().registry);
  ProgramRunner fast_runner(fast);
  ProgramRunner slow_runner(slow);
  for (const int64_t batch : {1, 2, 33}) {
    const std::vector<Tensor> actual = RunOf(fast_runner, batch);
    const std::vector<Tensor> expected = RunOf(slow_runner, batch);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].TypeString(), expected[i].TypeString());
      double square = 0;
      for (int64_t k = 0; k < expected[i].num_elements(); ++k) {
        square += std::pow(expected[i].data<float>()[k], 2);
      }
      const double usual = std::sqrt(square / static_cast<double>(expected[i].num_elements()));
      for (int64_t k = 0; k < expected[i].num_elements(); ++k) {
        ASSERT_NEAR(actual[i].data<float>()[k], expected[i].data<float>()[k], 1e-5 * usual)
            << "output " << i << "[" << k << "], batch " << batch;
      }
    }
  }
}

TEST(ConvolutionTest, RunnersOfOneProgramRunBesideEachOther) {
  const auto program = Compile(CpuBackend().registry);
  std::vector<std::vector<Tensor>> alone;
  {
    ProgramRunner runner(program);
    for (int64_t batch = 1; batch <= 12; ++batch) alone.push_back(RunOf(runner, batch));
  }
  const auto work = [&](int64_t stride) {
    ProgramRunner runner(program);
    for (int64_t i = 0; i < 36; ++i) {
      const int64_t batch = i * stride % 12 + 1;
      EXPECT_TRUE(SameBits(RunOf(runner, batch), alone[static_cast<size_t>(batch) - 1]))
          << "batch " << batch;
    }
  };
  std::thread other([&] { work(5); });
  work(7);
  other.join();
}

// Of an odd number of positions that are cut, ONNX cuts one more at the end for SAME_UPPER, else at
// the begin. A given extent beyond all positions adds zeros at the end.
TEST(ConvolutionTest, ATransposedOneIsCutAtTheEndsThatOnnxNames) {
  struct Case {
    onnx::AttributeProto attribute;
    std::vector<float> expected;
  };
  const auto pad = [](const char* name) { return StringAttribute("auto_pad", name); };
  const auto extent = [](int64_t size) { return IntsAttribute("output_shape", {size}); };
  for (const Case& each : std::vector<Case>{{pad("VALID"), {1, 10, 102, 20, 200}},
                                            {pad("SAME_UPPER"), {1, 10, 102, 20}},
                                            {pad("SAME_LOWER"), {10, 102, 20, 200}},
                                            {extent(4), {10, 102, 20, 200}},
                                            {extent(6), {1, 10, 102, 20, 200, 0}}}) {
    GraphBuilder graph("transposed");
    const std::string x = graph.Input("x", DType::kFloat32, {1, 1, 2});
    const std::string w = graph.Input("w", DType::kFloat32, {1, 1, 3});
    graph.Output(
        graph.Op("ConvTranspose", {x, w}, {IntsAttribute("strides", {2}), each.attribute}));
    const auto model = graph.Finish();
    ASSERT_TRUE(model.ok()) << model.status();
    for (const Backend& backend : {CpuBackend(), ReferenceBackend()}) {
      const auto program = CompileProgram(*model, backend.registry);
      ASSERT_TRUE(program.ok()) << program.status();
      const auto y =
          ProgramRunner(*program).Run({Tensor::FromVector<float>({1, 2}, {1, 1, 2}),
                                       Tensor::FromVector<float>({1, 10, 100}, {1, 1, 3})},
                                      RunContext{});
      ASSERT_TRUE(y.ok()) << y.status();
      const auto values = (*y)[0].span<float>();
      EXPECT_EQ(std::vector<float>(values.begin(), values.end()), each.expected)
          << backend.name << ", " << each.attribute.ShortDebugString();
    }
  }
}

}  // namespace
}  // namespace cohort
