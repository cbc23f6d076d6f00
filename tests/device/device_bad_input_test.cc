// What a device's kernels refuse: shapes that do not fit, of which nothing may be read or written.

#include <string>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/runtime/run/fusion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/device_programs.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

// The words with which one node refuses its inputs.
using DeviceBadInput = DeviceProgramTest;

std::string Refusal(const absl::StatusOr<std::unique_ptr<ProgramRunner>>& runner,
                    const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(runner.ok()) << runner.status();
  const auto refused = (*runner)->Run(inputs, RunContext{});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(refused.status().message());
}

Tensor Zeros(const Shape& shape) { return Tensor::Zeros(DType::kFloat32, shape); }

TEST_P(DeviceBadInput, ABiasHasAnElementForEachColumn) {
  const std::vector<Tensor> inputs = {Zeros({2, 3}), Zeros({3, 4}), Zeros({3})};
  EXPECT_THAT(Refusal(Compile(OneNode(kRuntimeDomain, "MatMulBias", inputs), OpenStream()), inputs),
              HasSubstr("bias float32[3] for 4 columns"));
}

TEST_P(DeviceBadInput, ALosssGradientHasTheShapeOfTheLoss) {
  const Tensor labels = Tensor::FromVector<int64_t>({0, 1}, Shape{2});
  const std::vector<Tensor> sparse = {Zeros({1}), labels, Zeros({2, 3})};
  EXPECT_THAT(Refusal(Compile(OneNode(kCohortDomain, "SparseCategoricalCrossentropyGrad", sparse),
                              OpenStream()),
                      sparse),
              HasSubstr("gradient float32[1] where the loss has shape [2]"));
  const std::vector<Tensor> dense = {Zeros({1}), Zeros({2, 3}), Zeros({2, 3})};
  EXPECT_THAT(
      Refusal(Compile(OneNode(kCohortDomain, "CategoricalCrossentropyGrad", dense), OpenStream()),
              dense),
      HasSubstr("gradient float32[1] where the loss has shape [2]"));
}

TEST_P(DeviceBadInput, LabelsAreOfClasses) {
  const Tensor labels = Tensor::FromVector<int64_t>({0, 3}, Shape{2});
  const std::vector<Tensor> inputs = {labels, Zeros({2, 3})};
  const auto model = OneNode(kCohortDomain, "SparseCategoricalCrossentropy", inputs);
  EXPECT_THAT(Refusal(Compile(model, OpenStream()), inputs),
              HasSubstr("label 3 at position 1 is not in [0, 3)"));
}

// The library counts elements in 31 bits.
TEST_P(DeviceBadInput, AConvolutionHasNoMoreElementsThanItsLibraryCounts) {
  const std::vector<Tensor> inputs = {Zeros({70000, 1, 1, 1}), Zeros({35000, 1, 1, 1})};
  EXPECT_THAT(Refusal(Compile(OneNode("", "Conv", inputs), OpenStream()), inputs),
              HasSubstr("takes 2147483647 elements at most; use a smaller batch"));
}

COHORT_ON_CUDA_DEVICES(DeviceBadInput);

}  // namespace
}  // namespace cohort
