// Programs and streams where a device fails or has no memory left, which only the stand-in does
// when it is told to; and what it alone sees: who touches its memory.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/device_programs.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

// A value whose shape alone is wanted is read back by nobody.
onnx::ModelProto OnlyASize() {
  GraphBuilder builder("only_a_size");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  builder.Output(builder.Op("Size", {builder.Op("Neg", {x})}));
  return *builder.Finish();
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
    if (calls == 1) {
      EXPECT_THAT(std::string(failed.status().message()),
                  HasSubstr("(Neg): gpu:0: starting a kernel: "));
    }
    FailCudaStandInAfter(-1);
    EXPECT_TRUE(runner->Run(inputs, RunContext{}).ok());
  }
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
  auto runner = *Compile(ThereAndBack(), OpenStream(8192));
  const auto failed =
      runner->Run(std::vector<Tensor>{Tensor::Zeros(DType::kFloat32, Shape{5000})}, RunContext{});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("gpu:0 has no memory for 20000"));
  EXPECT_TRUE(runner->Run(std::vector<Tensor>{Floats({1})}, RunContext{}).ok());
}

TEST_F(StandInProgramTest, ADeviceThatIsNotThereIsNamed) {
  const auto stream = CudaStream::Open(MakeCudaStandIn(2, kStandInMemory), 2);
  EXPECT_THAT(std::string(stream.status().message()),
              HasSubstr("gpu:2 is not there: this machine has 2 GPUs"));
}

TEST_F(StandInProgramTest, ADeviceThatCannotBeOpenedIsNamedWithWhatToDo) {
  CudaTable table = MakeCudaStandIn(1, kStandInMemory);
  table.open = [](void*, int32_t, CudaContext**) { return 700; };
  const auto stream = CudaStream::Open(table, 0);
  EXPECT_EQ(stream.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stream.status().message()),
              testing::AllOf(HasSubstr("gpu:0 cannot be used: stand-in: an illegal memory access"),
                             HasSubstr("see with nvidia-smi what else uses it"),
                             HasSubstr("CMAKE_CUDA_ARCHITECTURES"), HasSubstr("cpu devices")));
}

// The kernel's own memory: of its softmax, twice a double for each line.
TEST_F(StandInProgramTest, WithoutMemoryInsideAKernelNothingRuns) {
  GraphBuilder builder("softmax");
  builder.Output(builder.Op("Softmax", {builder.Input("x", DType::kFloat32, {-1, 1})}));
  auto runner = *Compile(*builder.Finish(), OpenStream(16384));
  const auto failed = runner->Run(
      std::vector<Tensor>{Tensor::Zeros(DType::kFloat32, Shape{1000, 1})}, RunContext{});
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("gpu:0 has no memory for 16000"));
  EXPECT_TRUE(
      runner->Run(std::vector<Tensor>{Tensor::Zeros(DType::kFloat32, Shape{100, 1})}, RunContext{})
          .ok());
}

TEST_F(StandInProgramTest, AWeightThatIsNotCopiedFailsTheCompilation) {
  GraphBuilder builder("weights");
  builder.Output(builder.Op("Sqrt", {builder.Constant("w", Floats({4, 9}))}));
  FailCudaStandInLateAfter(0);
  const auto runner = Compile(*builder.Finish(), OpenStream());
  EXPECT_THAT(std::string(runner.status().message()), HasSubstr("an illegal memory access (700)"));
}

// Each side has an arena of its own values.
TEST_F(StandInProgramTest, AnArenaHasRoomForItsSideAlone) {
  GraphBuilder builder("arena");
  const std::string x = builder.Input("x", DType::kFloat32, {256});
  builder.Output(builder.Op("Exp", {builder.Op("Neg", {x})}));
  auto runner = *Compile(*builder.Finish(), OpenStream());
  ASSERT_TRUE(runner->Run(std::vector<Tensor>{Floats(std::vector<float>(256))}, RunContext{}).ok());
  EXPECT_EQ(runner->memory().arena_bytes, 1024u) << "x, Neg and Exp in one place";
}

TEST_F(StandInProgramTest, TheFirstFailureIsTold) {
  const auto stream = OpenStream();
  FailCudaStandInAfter(1);
  FailCudaStandInLateAfter(0);
  const Tensor x = Floats({1});
  Tensor there = stream->Upload(x);
  stream->FillZeros(there);
  EXPECT_EQ(stream->Wait().message(),
            "gpu:0: filling memory: stand-in: an illegal memory access (700)");
}

TEST_F(StandInProgramTest, WhatIsUploadedIsKeptUntilItIsThere) {
  const auto stream = OpenStream();
  const Tensor x = Floats({1});
  const Tensor there = stream->Upload(x);
  EXPECT_GT(x.buffer().use_count(), 1);
  ASSERT_TRUE(stream->Wait().ok());
  EXPECT_EQ(x.buffer().use_count(), 1);
}

TEST_F(StandInProgramTest, NothingIsPostedForNothing) {
  const auto stream = OpenStream();
  FailCudaStandInAfter(0);
  Tensor nothing = stream->Upload(Floats({}));
  Tensor copy = stream->Clone(nothing);
  stream->FillZeros(copy);
  Tensor host = Floats({});
  stream->CopyToHost(copy, host);
  EXPECT_TRUE(stream->Wait().ok());
}

using StandInMemoryDeathTest = StandInProgramTest;

// What makes the tests above worth something.
TEST_F(StandInMemoryDeathTest, NobodyElseTouchesTheDevicesMemory) {
  const auto stream = OpenStream();
  const Tensor there = stream->Upload(Floats({1}));
  EXPECT_DEATH(
      {
        volatile std::byte read = *there.raw();
        (void)read;
      },
      "");
}

}  // namespace
}  // namespace cohort
