// Programs on a device: what runs there and what stays on the processor, values that go from one to
// the other, memory, and what fails. What the stand-in alone can do, be told to fail and see who
// touches its memory, is in tests of its own.

#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/program/graph_builder.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/placement.h"
#include "common/runtime/program_runner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"
#include "tests/device/train_graph.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMemory = 64 << 20;

Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromVector<float>(values, Shape{static_cast<int64_t>(values.size())});
}

std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

class Programs {
 protected:
  Programs() {
    RegisterCpuKernels(host_, 1);
    RegisterCudaKernels(device_);
  }

  absl::StatusOr<std::unique_ptr<ProgramRunner>> Compile(const onnx::ModelProto& model,
                                                         std::shared_ptr<CudaStream> stream) {
    const DeviceTarget target{device_, stream};
    auto program = CompileProgram(model, host_, &target);
    if (!program.ok()) return program.status();
    return std::make_unique<ProgramRunner>(*program, Buffer::Allocate, std::move(stream));
  }

  absl::StatusOr<std::vector<Tensor>> RunOnHost(const onnx::ModelProto& model,
                                                const std::vector<Tensor>& inputs) {
    auto program = CompileProgram(model, host_);
    if (!program.ok()) return program.status();
    return ProgramRunner(*program).Run(inputs, RunContext{});
  }

  KernelRegistry host_;
  KernelRegistry device_;
};

class DeviceProgramTest : public OnCudaDevices, protected Programs {
 protected:
  std::shared_ptr<CudaStream> OpenStream() { return *CudaStream::Open(*table(), 0); }
};

class StandInProgramTest : public testing::Test, protected Programs {
 protected:
  ~StandInProgramTest() override {
    FailCudaStandInAfter(-1);
    FailCudaStandInLateAfter(-1);
  }
  std::shared_ptr<CudaStream> OpenStream(uint64_t bytes = kMemory) {
    return *CudaStream::Open(MakeCudaStandIn(1, bytes), 0);
  }
};

// exp(-x) on the device; ArgMax has no kernel there; both are fetched, and so is a value between.
onnx::ModelProto ThereAndBack() {
  GraphBuilder builder("there_and_back");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  const std::string negated = builder.Op("Neg", {x});
  const std::string grown = builder.Op("Exp", {negated});
  builder.Output(negated);
  builder.Output(builder.Op("ArgMax", {grown}));
  builder.Output(builder.Op("Sqrt", {grown}));
  return *builder.Finish();
}

TEST_P(DeviceProgramTest, ValuesGoThereAndBack) {
  auto runner = Compile(ThereAndBack(), OpenStream());
  ASSERT_TRUE(runner.ok()) << runner.status();
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> inputs = {Floats({1, -2.0f - static_cast<float>(run), 3})};
    const auto outputs = (*runner)->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto expected = *RunOnHost(ThereAndBack(), inputs);
    EXPECT_EQ(Values((*outputs)[0]), Values(expected[0]));
    EXPECT_EQ((*outputs)[1].data<int64_t>()[0], 1);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(Values((*outputs)[2])[i], Values(expected[2])[i], 1e-5);
    }
  }
}

TEST_P(DeviceProgramTest, MemoryIsPlannedOnceAndOutputsAreOfTheHost) {
  auto runner = *Compile(ThereAndBack(), OpenStream());
  const std::vector<Tensor> inputs = {Floats({1, 2})};
  ASSERT_TRUE(runner->Run(inputs, RunContext{}).ok());
  const int64_t after_one = runner->memory().allocations;
  for (int run = 0; run < 3; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    for (const Tensor& output : *outputs) EXPECT_FALSE(IsOnDevice(output));
  }
  EXPECT_EQ(runner->memory().allocations, after_one);
}

TEST_F(StandInProgramTest, WhichNodesRunThere) {
  const onnx::ModelProto model = ThereAndBack();
  const std::vector<onnx::NodeProto> nodes(model.graph().node().begin(),
                                           model.graph().node().end());
  std::vector<std::string> walk;
  for (const PlacedNode& placed : PlaceNodes(model.graph(), nodes, device_)) {
    walk.push_back(placed.node.op_type() + (placed.on_device ? "" : " (processor)"));
  }
  EXPECT_THAT(walk, testing::ElementsAre("ToDevice", "Neg", "Exp", "ToHost", "ArgMax (processor)",
                                         "Sqrt", "ToHost", "ToHost"));
}

TEST_P(DeviceProgramTest, OtherTypesStayOnTheProcessor) {
  GraphBuilder builder("doubles");
  builder.Output(builder.Op("Neg", {builder.Input("x", DType::kFloat64, {-1})}));
  const onnx::ModelProto model = *builder.Finish();
  auto runner = *Compile(model, OpenStream());
  const auto outputs =
      runner->Run(std::vector<Tensor>{Tensor::FromVector<double>({2}, Shape{1})}, RunContext{});
  EXPECT_EQ((*outputs)[0].data<double>()[0], -2);
  const std::vector<onnx::NodeProto> nodes(model.graph().node().begin(),
                                           model.graph().node().end());
  EXPECT_FALSE(PlaceNodes(model.graph(), nodes, device_)[0].on_device);
}

TEST_F(StandInProgramTest, AWeightIsCopiedOnce) {
  GraphBuilder builder("weights");
  const std::string weight = builder.Constant("w", Floats({4, 9}));
  builder.Output(builder.Op("Sqrt", {weight}));
  auto runner = *Compile(*builder.Finish(), OpenStream());
  FailCudaStandInAfter(2);  // the kernel and the copy back
  const auto outputs = runner->Run(std::vector<Tensor>{}, RunContext{});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(Values((*outputs)[0]), (std::vector<float>{2, 3}));
}

TEST_P(DeviceProgramTest, ATrainStepComputesWhatTheProcessorDoes) {
  const auto graph = *MakeTrainGraph({.inputs = 20, .units = {12, 5}});
  std::vector<Tensor> inputs;
  uint64_t stream = 0;
  for (const auto& input : graph.model.graph().input()) {
    std::vector<int64_t> dims;
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      dims.push_back(dim.has_dim_value() ? dim.dim_value() : 7);
    }
    Tensor tensor(DType::kFloat32, Shape(absl::MakeConstSpan(dims)));
    const RandomStream values(++stream, "values");
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<float>()[i] = values.Uniform(static_cast<uint64_t>(i)) / 4;
    }
    inputs.push_back(std::move(tensor));
  }
  auto runner = *Compile(graph.model, OpenStream());
  const auto expected = *RunOnHost(graph.model, inputs);
  for (int run = 0; run < 2; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ((*outputs)[i].shape(), expected[i].shape());
      for (size_t k = 0; k < Values(expected[i]).size(); ++k) {
        EXPECT_NEAR(Values((*outputs)[i])[k], Values(expected[i])[k], 1e-5) << "output " << i;
      }
    }
  }
}

TEST_F(StandInProgramTest, AFailureEndsTheRunAndNotTheStream) {
  auto runner = *Compile(ThereAndBack(), OpenStream());
  const std::vector<Tensor> inputs = {Floats({1, 2})};
  for (int calls = 0; calls < 7; ++calls) {
    FailCudaStandInAfter(calls);
    const auto failed = runner->Run(inputs, RunContext{});
    ASSERT_FALSE(failed.ok()) << calls;
    EXPECT_THAT(std::string(failed.status().message()),
                HasSubstr("stand-in: an illegal memory access (700)"));
    EXPECT_THAT(std::string(failed.status().message()), HasSubstr("node '"));
    FailCudaStandInAfter(-1);
    EXPECT_TRUE(runner->Run(inputs, RunContext{}).ok());
  }
}

// A value whose shape alone is wanted is read back by nobody.
onnx::ModelProto OnlyASize() {
  GraphBuilder builder("only_a_size");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  builder.Output(builder.Op("Size", {builder.Op("Neg", {x})}));
  return *builder.Finish();
}

TEST_F(StandInProgramTest, ARunThatHasEndedHasLeftNothingOnTheDevice) {
  const auto stream = OpenStream();
  auto runner = *Compile(OnlyASize(), stream);
  FailCudaStandInLateAfter(1);  // the copy, then the kernel
  const auto failed = runner->Run(std::vector<Tensor>{Floats({1, 2})}, RunContext{});
  EXPECT_EQ(failed.status().message(),
            "gpu:0: computing: stand-in: an illegal memory access (700)");
  const auto outputs = runner->Run(std::vector<Tensor>{Floats({1, 2})}, RunContext{});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].data<int64_t>()[0], 2);
  FailCudaStandInLateAfter(0);
  EXPECT_TRUE(stream->Wait().ok()) << "nothing runs any more";
}

// What a kernel does wrong is seen when the device has come to it, by whoever waits.
TEST_F(StandInProgramTest, AFailureOnTheDeviceEndsTheRunAndNotTheStream) {
  auto runner = *Compile(ThereAndBack(), OpenStream());
  const std::vector<Tensor> inputs = {Floats({1, 2})};
  for (int work = 0; work < 7; ++work) {
    FailCudaStandInLateAfter(work);
    const auto failed = runner->Run(inputs, RunContext{});
    ASSERT_FALSE(failed.ok()) << work;
    EXPECT_THAT(std::string(failed.status().message()),
                HasSubstr("gpu:0: computing: stand-in: an illegal memory access (700)"));
    FailCudaStandInLateAfter(-1);
    EXPECT_TRUE(runner->Run(inputs, RunContext{}).ok());
  }
}

TEST_F(StandInProgramTest, MemoryOfOtherSizesIsGivenBackWhereThereIsNoneLeft) {
  auto runner = *Compile(ThereAndBack(), OpenStream(1 << 16));
  for (const int64_t elements : {1000, 2000, 3000, 1000}) {
    const Tensor x = Tensor::Zeros(DType::kFloat32, Shape{elements});
    const auto outputs = runner->Run(std::vector<Tensor>{x}, RunContext{});
    ASSERT_TRUE(outputs.ok()) << elements << ": " << outputs.status();
  }
}

TEST_F(StandInProgramTest, WithoutMemoryARunFailsInWords) {
  auto runner = *Compile(ThereAndBack(), OpenStream(4096));
  const auto failed =
      runner->Run(std::vector<Tensor>{Tensor::Zeros(DType::kFloat32, Shape{5000})}, RunContext{});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("gpu:0 has no memory for 20000"));
  EXPECT_TRUE(runner->Run(std::vector<Tensor>{Floats({1})}, RunContext{}).ok());
}

TEST_F(StandInProgramTest, ADeviceThatIsNotThereIsNamed) {
  const auto stream = CudaStream::Open(MakeCudaStandIn(2, kMemory), 2);
  EXPECT_THAT(std::string(stream.status().message()),
              HasSubstr("gpu:2 is not there: this machine has 2 GPUs"));
}

using DeviceMemoryDeathTest = StandInProgramTest;

// What makes the tests above worth something.
TEST_F(DeviceMemoryDeathTest, NobodyElseTouchesTheDevicesMemory) {
  const auto stream = OpenStream();
  const Tensor there = stream->Upload(Floats({1}));
  EXPECT_DEATH(
      {
        volatile std::byte read = *there.raw();
        (void)read;
      },
      "");
}

COHORT_ON_CUDA_DEVICES(DeviceProgramTest);

}  // namespace
}  // namespace cohort
