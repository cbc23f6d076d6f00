// Kernels that hand their input on in some runs and compute in others, under memory plans that were
// recorded when they did the other of the two.

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/program/graph_builder.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using testing::Each;
using testing::FloatEq;

Tensor Fours(float value) { return Tensor::FromVector<float>({value, value, value, value}, {4}); }

std::string Clip(GraphBuilder& builder, const std::string& value, float norm) {
  return builder.OpN("ClipByNorm", {value}, 1, {FloatAttribute("clip_norm", norm)}, "cohort")[0];
}

class PassedInput : public testing::TestWithParam<bool> {
 protected:
  PassedInput() {
    GetParam() ? RegisterCpuKernels(registry_, 1) : RegisterReferenceKernels(registry_);
  }

  std::unique_ptr<ProgramRunner> RunnerOf(GraphBuilder& builder) {
    auto runner = std::make_unique<ProgramRunner>(*CompileProgram(*builder.Finish(), registry_));
    runner->FillDeadMemory();
    return runner;
  }

  // x * 1 goes through a clip to a norm of 10, and then to `other`. The clip scales where it is
  // recorded, hands its input on in the next run, and scales again.
  void ExpectRight(const std::string& other, const std::function<float(float)>& of) {
    GraphBuilder builder("clip");
    const auto x = builder.Input("x", DType::kFloat32, {4});
    const auto w = builder.Input("w", DType::kFloat32, {4});
    const auto g = builder.Op("Mul", {x, w});
    builder.Output(Clip(builder, g, 10));
    builder.Output(other == "Neg" ? builder.Op("Neg", {g}) : builder.Op(other, {g, w}));
    const auto runner = RunnerOf(builder);
    for (const auto& [given, clipped] : {std::pair{100.0f, 5.0f}, {2.0f, 2.0f}, {50.0f, 5.0f}}) {
      const auto outputs = runner->Run({Fours(given), Fours(1)}, RunContext{});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_THAT((*outputs)[0].span<float>(), Each(FloatEq(clipped)));
      EXPECT_THAT((*outputs)[1].span<float>(), Each(of(given)));
    }
  }

  KernelRegistry registry_;
};

TEST_P(PassedInput, IsNotWrittenOver) {
  ExpectRight("Neg", [](float g) { return -g; });
  ExpectRight("Add", [](float g) { return g + 1; });
}

// Two variables that have one gradient: what is made over the first reading of it is not what the
// second reading finds.
TEST_P(PassedInput, OfANodeThatReadsItTwiceIsNotWrittenOver) {
  GraphBuilder builder("clip");
  const auto g = builder.Op("Neg", {builder.Input("x", DType::kFloat32, {4})});
  for (const std::string& clipped :
       builder.OpN("ClipByNorm", {g, g}, 2, {FloatAttribute("clip_norm", 8)}, "cohort")) {
    builder.Output(clipped);
  }
  const auto runner = RunnerOf(builder);
  for (int run = 0; run < 2; ++run) {  // recorded, and by the plan
    const auto outputs = runner->Run({Fours(1e3)}, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const float each = -8 / std::sqrt(8.0f);
    EXPECT_THAT((*outputs)[0].span<float>(), Each(FloatEq(each)));
    EXPECT_THAT((*outputs)[1].span<float>(), Each(FloatEq(each)));
  }
}

// Adds one node that reads values of the graph so far, of which some hand their input on always
// (Identity, Reshape), or in some runs (the clips), and some write over their input.
std::string RandomNode(GraphBuilder& builder, const std::vector<std::string>& values,
                       SequenceRng& rng) {
  const auto any = [&] { return values[rng.Below(values.size())]; };
  switch (rng.Below(7)) {
    case 0:
      return builder.Op("Neg", {any()});
    case 1:
      return builder.Op("Add", {any(), any()});
    case 2:
      return builder.Op("Identity", {any()});
    case 3:
      return builder.Op("ReduceSum", {builder.Op("Reshape", {any(), "one_row"}), "axis"},
                        {IntAttribute("keepdims", 0)});
    case 4:
      return builder.OpN("ClipByNorm", {any(), any()}, 2, {FloatAttribute("clip_norm", 30)},
                         "cohort")[rng.Below(2)];
    default:
      return Clip(builder, any(), 10);
  }
}

onnx::ModelProto RandomGraph(SequenceRng& rng) {
  GraphBuilder builder("random");
  std::vector<std::string> values = {builder.Input("x", DType::kFloat32, {4}),
                                     builder.Input("y", DType::kFloat32, {4})};
  builder.Constant("one_row", Tensor::FromVector<int64_t>({1, 4}, {2}));
  builder.Constant("axis", Tensor::FromVector<int64_t>({0}, {1}));
  for (int node = 0; node < 12; ++node) values.push_back(RandomNode(builder, values, rng));
  for (int output = 0; output < 3; ++output) {
    builder.Output(builder.Op("Identity", {values[values.size() - 1 - rng.Below(5)]}));
  }
  return *builder.Finish();
}

// Under a plan there are the bits of a run that has none.
TEST_P(PassedInput, RandomGraphsGiveUnderAnyPlanWhatTheyGiveWithoutOne) {
  constexpr uint64_t kSeed = 20261125;
  SequenceRng rng(kSeed);
  for (int graph = 0; graph < 300; ++graph) {
    SCOPED_TRACE("graph " + std::to_string(graph) + " of seed " + std::to_string(kSeed));
    const auto program = CompileProgram(RandomGraph(rng), registry_);
    ASSERT_TRUE(program.ok()) << program.status();
    ProgramRunner runner(*program);
    runner.FillDeadMemory();
    for (int run = 0; run < 8; ++run) {
      const float scale = rng.Below(2) == 0 ? 0.5f : 40.0f;
      const std::vector<Tensor> inputs = {Fours(scale), Fours(rng.Below(2) == 0 ? 0.25f : -20.0f)};
      const auto expected = ProgramRunner(*program).Run(inputs, RunContext{});
      const auto outputs = runner.Run(inputs, RunContext{});
      ASSERT_TRUE(outputs.ok() && expected.ok()) << outputs.status() << expected.status();
      for (size_t i = 0; i < outputs->size(); ++i) {
        ASSERT_EQ((*outputs)[i].span<float>(), (*expected)[i].span<float>())
            << "run " << run << ", output " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PassedInput, testing::Values(true, false),
                         [](const auto& each) { return each.param ? "Cpu" : "Reference"; });

}  // namespace
}  // namespace cohort
