// The memory of a GPU as a home of variables: what it copies, what it refuses, and how it ends.

#include "common/runtime/update/gpu_memory.h"

#include <string>
#include <thread>
#include <vector>

#include "common/runtime/cuda/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/counted_uploads.h"
#include "tests/device/slice_at_home.h"
#include "tests/support/cuda_devices.h"
#include "tests/unit/common/runtime/random_updates.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

proto::UpdateRule Sgd() { return RuleOf("sgd", {}); }

// v -= g
void Subtract(const UpdateKernel& kernel, const SliceAtHome& slice,
              absl::Span<const float> gradient) {
  UpdateStep update = slice.StepInto(slice);
  update.gradient = gradient;
  update.learning_rate = 1;
  kernel.Apply(update);
}

class GpuMemory : public OnCudaDevices {};

TEST_P(GpuMemory, CopiesAGradientOnlyFromWhereTheGpuDoesNotReach) {
  const CountedUploads uploads(*table());
  const auto memory = *OpenGpuMemory(uploads.table(), 0);
  EXPECT_TRUE(memory->in_one_piece());
  const auto kernel = *memory->MakeKernel(Sgd());
  const SliceAtHome slice(*memory, {10, 20, 30}, {});
  const FloatsAtHome there(*memory, {9, 1, 2, 3, 9});
  Subtract(*kernel, slice, there.span().subspan(1, 3));
  EXPECT_EQ(uploads.count(), 0);
  const std::vector<float> here = {1, 2, 3};
  Subtract(*kernel, slice, here);
  EXPECT_EQ(uploads.count(), 1);
  EXPECT_EQ(slice.value.values(), (std::vector<float>{8, 16, 24}));
}

TEST_P(GpuMemory, ReadsAGradientThatAProgramLeftOnTheGpu) {
  const CountedUploads uploads(*table());
  const auto memory = *OpenGpuMemory(uploads.table(), 0);
  const auto stream = *CudaStream::Open(*table(), 0);
  const Tensor gradient = stream->Upload(Tensor::FromVector<float>({1, 2}, {2}));
  ASSERT_TRUE(stream->Wait().ok());
  const SliceAtHome slice(*memory, {10, 20}, {});
  Subtract(**memory->MakeKernel(Sgd()), slice, {gradient.data<float>(), 2});
  EXPECT_EQ(uploads.count(), 0);
  EXPECT_EQ(slice.value.values(), (std::vector<float>{9, 18}));
}

TEST_P(GpuMemory, IsUsedByManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 50;
  const auto memory = *OpenGpuMemory(*table(), 0);
  const std::shared_ptr<UpdateKernel> kernel = *memory->MakeKernel(Sgd());
  std::vector<SliceAtHome> slices;
  for (int i = 0; i < kThreads; ++i)
    slices.emplace_back(*memory, std::vector<float>{0}, std::vector<std::vector<float>>());
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> gradient = {static_cast<float>(-i)};
      for (int step = 0; step < kSteps; ++step) {
        Subtract(*kernel, slices[static_cast<size_t>(i)], gradient);
        const FloatsAtHome other(*memory, gradient);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(slices[static_cast<size_t>(i)].value.span()[0], i * kSteps);
  }
}

TEST_P(GpuMemory, EndsAfterItsBuffersAndKernels) {
  auto memory = *OpenGpuMemory(*table(), 0);
  const auto kernel = *memory->MakeKernel(Sgd());
  const SliceAtHome slice(*memory, {3}, {});
  memory = nullptr;
  Subtract(*kernel, slice, std::vector<float>{1});
  EXPECT_EQ(slice.value.span()[0], 2);
}

TEST_P(GpuMemory, SaysWhatItDoesNotHave) {
  const auto memory = *OpenGpuMemory(*table(), 0);
  const auto too_much = memory->Allocate(size_t{1} << 50);
  EXPECT_EQ(too_much.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_much.status().message()),
              AllOf(HasSubstr("gpu:0 has no memory for 1125899906842624 bytes more: "),
                    HasSubstr(" are free (allocating: ")));
  EXPECT_TRUE(memory->Allocate(1000).ok());
  const auto unknown = memory->MakeKernel(RuleOf("lioness", {}));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("lioness"));
  EXPECT_EQ(OpenGpuMemory(*table(), 1000).status().code(), absl::StatusCode::kFailedPrecondition);
}

COHORT_ON_CUDA_DEVICES(GpuMemory);

constexpr uint64_t kStandInBytes = 1 << 20;

// A gradient for which there is no room on the device, with a rule whose rows have missed steps.
TEST(GpuMemoryOfStandIn, UpdatesOnTheProcessorWhereThereIsNoRoomForTheGradient) {
  constexpr size_t kElements = 40000;
  proto::UpdateRule rule = RuleOf("sgd", {{"momentum", 0.5}});
  rule.set_sparse(proto::LAZY_COMPENSATED);
  const std::vector<float> ones(kElements, 1);
  const std::vector<std::vector<float>> slots = {ones, std::vector<float>(kElements)};
  const auto small = *OpenGpuMemory(MakeCudaStandIn(1, kStandInBytes), 0);
  std::vector<std::vector<float>> results;
  for (VariableMemory* const home : {HostMemory().get(), small.get()}) {
    const SliceAtHome slice(*home, ones, slots);
    std::vector<std::shared_ptr<Buffer>> rest;
    while (home == small.get()) {
      auto more = home->Allocate(50000);
      if (!more.ok()) break;
      rest.push_back(*std::move(more));
    }
    UpdateStep update = slice.StepInto(slice);
    update.gradient = ones;
    update.learning_rate = 0.25;
    update.step = 3;
    (*home->MakeKernel(rule))->Apply(update);
    results.push_back(slice.value.values());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[1], ones);
}

TEST(GpuMemoryOfStandIn, IsNotOfADeviceWithoutUnifiedMemory) {
  CudaTable table = MakeCudaStandIn(1, kStandInBytes);
  table.allocate_unified = [](CudaContext*, uint64_t, void**) { return 700; };
  const auto memory = OpenGpuMemory(table, 0);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(memory.status().message()),
              AllOf(HasSubstr("variables cannot be kept on a GPU: gpu:0 "),
                    HasSubstr("stand-in: an illegal memory access (700)"),
                    HasSubstr("or keep them in host memory")));
}

// The variable is neither what it was nor what it was to be.
TEST(GpuMemoryDeathTest, EndsTheProcessWithItsDevice) {
  const auto memory = *OpenGpuMemory(MakeCudaStandIn(1, kStandInBytes), 0);
  const auto kernel = *memory->MakeKernel(Sgd());
  const SliceAtHome slice(*memory, {1}, {});
  EXPECT_DEATH(
      {
        FailCudaStandInLateAfter(1);  // the copy of the gradient, then the loop
        Subtract(*kernel, slice, std::vector<float>{1});
      },
      "variables_lost.*gpu:0: computing: stand-in: an illegal memory access \\(700\\)");
  EXPECT_DEATH(
      {
        FailCudaStandInAfter(0);
        Subtract(*kernel, slice, std::vector<float>{1});
      },
      "variables_lost.*gpu:0: copying to the device: stand-in: an illegal memory access");
}

}  // namespace
}  // namespace cohort
