// The MLP's train step on both backends: results, memory, determinism, and what fusion changes.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"
#include "tests/device/train_graph.h"

namespace cohort {
namespace {

Tensor RandomNormal(const Shape& shape, const std::string& name, float scale) {
  const RandomStream stream(11, name);
  Tensor tensor(DType::kFloat32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = scale * stream.Normal(static_cast<uint64_t>(i));
  }
  return tensor;
}

// A batch of `batch` examples and the variables of the graph.
std::vector<Tensor> MakeInputs(const TrainGraphOptions& options, int64_t batch) {
  const int64_t classes = options.units.back();
  Tensor labels = Tensor::Zeros(DType::kFloat32, {batch, classes});
  for (int64_t i = 0; i < batch; ++i) labels.mutable_data<float>()[i * classes + i % classes] = 1;
  std::vector<Tensor> inputs = {RandomNormal({batch, options.inputs}, "images", 1), labels};
  int64_t width = options.inputs;
  for (const int64_t units : options.units) {
    const std::string name = std::to_string(units);
    inputs.push_back(RandomNormal({width, units}, name, 1 / std::sqrt(static_cast<float>(width))));
    inputs.push_back(RandomNormal({units}, name + "bias", 0.1f));
    width = units;
  }
  return inputs;
}

const TrainGraphOptions kSmall = {37, {19, 11, 5}, true};

std::shared_ptr<const CompiledProgram> Compile(const TrainGraphOptions& options,
                                               const KernelRegistry& registry) {
  const absl::StatusOr<GradientGraph> graph = MakeTrainGraph(options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return nullptr;
  const auto program = CompileProgram(graph->model, registry);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : nullptr;
}

void ExpectSameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].TypeString(), b[i].TypeString());
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].num_bytes()), 0) << "output " << i;
  }
}

void ExpectClose(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].TypeString(), b[i].TypeString());
    for (int64_t k = 0; k < a[i].num_elements(); ++k) {
      const float expected = b[i].data<float>()[k];
      ASSERT_NEAR(a[i].data<float>()[k], expected, 1e-6 + 1e-4 * std::abs(expected))
          << "output " << i << " element " << k;
    }
  }
}

std::vector<Tensor> RunProgram(ProgramRunner& runner, const std::vector<Tensor>& inputs,
                               const RunContext& context) {
  runner.FillDeadMemory();
  absl::StatusOr<std::vector<Tensor>> outputs = runner.Run(inputs, context);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

TEST(TrainStepTest, CpuEqualsReference) {
  ProgramRunner cpu(Compile(kSmall, CpuBackend().registry));
  ProgramRunner reference(Compile(kSmall, ReferenceBackend().registry));
  for (const int64_t batch : {1, 16, 3}) {
    const std::vector<Tensor> inputs = MakeInputs(kSmall, batch);
    const std::vector<Tensor> actual = RunProgram(cpu, inputs, {5, 9, 0});
    ExpectClose(actual, RunProgram(reference, inputs, {5, 9, 0}));
    EXPECT_GT(actual[0].data<float>()[0], 0.1f);
  }
}

TEST(TrainStepTest, SteadyRunsAllocateNothingAndGiveTheSameBits) {
  ProgramRunner runner(Compile(kSmall, CpuBackend().registry));
  const std::vector<Tensor> inputs = MakeInputs(kSmall, 16);
  const std::vector<Tensor> first = RunProgram(runner, inputs, {5, 9, 0});
  const int64_t after_first = runner.memory().allocations;
  EXPECT_GT(runner.memory().arena_bytes, 0u);
  for (int i = 0; i < 5; ++i) ExpectSameBits(RunProgram(runner, inputs, {5, 9, 0}), first);
  EXPECT_EQ(runner.memory().allocations, after_first);
  // Another batch size plans again, once, and the smaller arena fits into the old one.
  const std::vector<Tensor> small = MakeInputs(kSmall, 7);
  const std::vector<Tensor> small_first = RunProgram(runner, small, {5, 9, 0});
  const int64_t after_small = runner.memory().allocations;
  ExpectSameBits(RunProgram(runner, small, {5, 9, 0}), small_first);
  EXPECT_EQ(runner.memory().allocations, after_small);
}

TEST(TrainStepTest, OutputsOutliveLaterRuns) {
  ProgramRunner runner(Compile(kSmall, CpuBackend().registry));
  const std::vector<Tensor> inputs = MakeInputs(kSmall, 16);
  const std::vector<Tensor> kept = RunProgram(runner, inputs, {5, 9, 0});
  std::vector<Tensor> copies;
  for (const Tensor& tensor : kept) copies.push_back(tensor.Clone());
  for (uint64_t step = 10; step < 20; ++step) RunProgram(runner, inputs, {5, step, 0});
  ExpectSameBits(kept, copies);
}

TEST(TrainStepTest, InputsAreNeverWritten) {
  ProgramRunner runner(Compile(kSmall, CpuBackend().registry));
  const std::vector<Tensor> inputs = MakeInputs(kSmall, 16);
  std::vector<Tensor> copies;
  for (const Tensor& tensor : inputs) copies.push_back(tensor.Clone());
  for (int i = 0; i < 3; ++i) RunProgram(runner, inputs, {5, 9, 0});
  ExpectSameBits(inputs, copies);
}

// A graph of one Dropout whose mask and result leave it.
std::vector<Tensor> Drop(const Backend& backend, const Tensor& x, const RunContext& context) {
  GraphBuilder builder("dropout");
  const std::string input = builder.Input("x", DType::kFloat32, {-1, x.shape().dim(1)});
  const std::string ratio = builder.Constant("ratio", Tensor::Scalar<float>(0.3f));
  const std::string training = builder.Constant("training", Tensor::Scalar<bool>(true));
  for (const std::string& value : builder.OpN("Dropout", {input, ratio, training}, 2)) {
    builder.Output(value);
  }
  ProgramRunner runner(*CompileProgram(*builder.Finish(), backend.registry));
  return RunProgram(runner, {x}, context);
}

TEST(TrainStepTest, DropoutMaskDoesNotDependOnTheSplitOfTheBatch) {
  for (const Backend& backend : {CpuBackend(), ReferenceBackend()}) {
    SCOPED_TRACE(backend.name);
    const Tensor x = RandomNormal({29, 7}, "x", 1);
    const std::vector<Tensor> whole = Drop(backend, x, {5, 9, 100});
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 10}, {11, 18}}) {
      const std::vector<Tensor> part = Drop(backend, x.Rows(begin, count), {5, 9, 100 + begin});
      ExpectSameBits(part, {whole[0].Rows(begin, count), whole[1].Rows(begin, count)});
    }
    const auto same_mask = [&](const RunContext& context) {
      const std::vector<Tensor> other = Drop(backend, x, context);
      return std::memcmp(other[1].raw(), whole[1].raw(), whole[1].num_bytes()) == 0;
    };
    EXPECT_TRUE(same_mask({5, 9, 100}));
    EXPECT_FALSE(same_mask({5, 10, 100}));
    EXPECT_FALSE(same_mask({6, 9, 100}));
    EXPECT_FALSE(same_mask({5, 9, 101}));
  }
}

TEST(TrainStepTest, DropoutDropsItsShare) {
  const Tensor x = RandomNormal({1000, 100}, "x", 1);
  const std::vector<Tensor> outputs = Drop(CpuBackend(), x, {5, 9, 0});
  int64_t kept = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) kept += outputs[1].data<bool>()[i];
  // Standard deviation of the share: 0.0015.
  EXPECT_NEAR(static_cast<double>(kept) / 1e5, 0.7, 0.008);
}

// Returns what RandomNormalLike gives for x.
Tensor Noise(const Backend& backend, const Tensor& x, const RunContext& context) {
  GraphBuilder builder("noise");
  const std::string input = builder.Input("x", DType::kFloat32, {-1, x.shape().dim(1)});
  builder.Output(builder.Op("RandomNormalLike", {input},
                            {FloatAttribute("mean", 2), FloatAttribute("scale", 0.5)}));
  ProgramRunner runner(*CompileProgram(*builder.Finish(), backend.registry));
  return RunProgram(runner, {x}, context)[0];
}

TEST(TrainStepTest, NoiseDoesNotDependOnTheSplitOfTheBatch) {
  const Tensor x = RandomNormal({29, 7}, "x", 1);
  const Tensor whole = Noise(CpuBackend(), x, {5, 9, 100});
  ExpectSameBits({Noise(CpuBackend(), x.Rows(11, 18), {5, 9, 111})}, {whole.Rows(11, 18)});
  const Tensor next = Noise(CpuBackend(), x, {5, 10, 100});
  EXPECT_NE(std::memcmp(next.raw(), whole.raw(), whole.num_bytes()), 0);
}

TEST(TrainStepTest, NoiseHasItsMeanAndDeviation) {
  const Tensor noise = Noise(CpuBackend(), RandomNormal({1000, 100}, "x", 1), {5, 9, 0});
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < noise.num_elements(); ++i) {
    const double distance = static_cast<double>(noise.data<float>()[i]) - 2;
    sum += distance / 1e5;
    squares += distance * distance / 1e5;
  }
  // Standard deviations of the two: 0.0016 and 0.0011.
  EXPECT_NEAR(sum, 0, 0.008);
  EXPECT_NEAR(squares, 0.25, 0.006);
}

TEST(TrainStepTest, FusionChangesNoBit) {
  // The same CPU kernels without the fused operator.
  const Backend cpu = CpuBackend();
  KernelRegistry plain;
  for (const auto& [domain, op] : cpu.registry.Names()) {
    if (domain != "cohort.runtime") plain.Add(domain, op, *cpu.registry.Find(domain, op));
  }
  ProgramRunner fused_runner(Compile(kSmall, cpu.registry));
  ProgramRunner plain_runner(Compile(kSmall, plain));
  const std::vector<Tensor> inputs = MakeInputs(kSmall, 16);
  ExpectSameBits(RunProgram(fused_runner, inputs, {5, 9, 0}),
                 RunProgram(plain_runner, inputs, {5, 9, 0}));
}

}  // namespace
}  // namespace cohort
