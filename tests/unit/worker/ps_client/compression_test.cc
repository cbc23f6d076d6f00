// Compressed pulls and pushes of one worker and two parameter servers. A step pushes the gradient
// that it is given as its argument, so all values are arithmetic: value = -0.5 * sum of gradients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr int32_t kFloat16 = 10;
constexpr int32_t kBfloat16 = 16;

class CompressionTest : public testing::Test {
 protected:
  // "w", float32[elements], half on each server.
  void SetUpVariable(int64_t elements, const proto::Compression& compression, float start = 0) {
    elements_ = elements;
    layouts_ = {MakeLayout("w", DType::kFloat32, {elements}, {elements / 2, elements / 2}, 1, 2)};
    layouts_[0].mutable_initializer()->set_op("constant");
    layouts_[0].mutable_initializer()->set_a(start);
    step_ = PushArgument(compression);
    read_ = ReadProgram("w", DType::kFloat32, {elements});
    ASSERT_TRUE(cluster_.Attach(1).ok());
    ASSERT_TRUE(cluster_.CreateVariables(layouts_).ok());
    RegisterAll();
  }

  void RegisterAll() {
    ASSERT_TRUE(cluster_.Register(step_, layouts_).ok());
    ASSERT_TRUE(cluster_.Register(read_, layouts_).ok());
  }

  proto::Program PushArgument(const proto::Compression& compression) {
    proto::Program program;
    program.set_name("step");
    GraphBuilder builder("step");
    const std::string gradient =
        builder.Op("Identity", {builder.Input("gradient", DType::kFloat32, {elements_})});
    builder.Output(gradient);
    SetModel(program, builder);
    proto::InputBinding& binding = *program.add_inputs();
    binding.set_input("gradient");
    binding.set_argument(0);
    BindPush(program, gradient, "w");
    *program.mutable_compression() = compression;
    return program;
  }

  absl::Status Run(proto::RunClosureRequest closure, const std::vector<float>& gradient) {
    const Tensor argument = Tensor::FromVector(gradient, Shape{elements_});
    *closure.add_arguments() = MetaOf(argument);
    return cluster_.Run(closure, {SliceOf(argument)}).status();
  }
  void Push(const std::vector<float>& gradient) {
    const absl::Status done = Run(cluster_.Closure(step_), gradient);
    ASSERT_TRUE(done.ok()) << done;
  }

  std::vector<float> Pull(const proto::Program& program) {
    const auto fetched = cluster_.Run(cluster_.Closure(program));
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    if (!fetched.ok()) return {};
    const absl::Span<const float> values = (*fetched)[0].span<float>();
    return {values.begin(), values.end()};
  }
  std::vector<float> Value() { return Pull(read_); }

  proto::PsStatsResponse Stats(int ps) {
    proto::PsStatsRequest request;
    request.set_epoch(cluster_.epoch());
    return cluster_
        .Invoke<proto::PsStatsResponse>(cluster_.ps_address(ps), "PsService/GetStats", request)
        ->header;
  }

  static proto::Compression TopK(double fraction) {
    proto::Compression compression;
    compression.set_top_k(fraction);
    return compression;
  }

  // What is left goes with pushes of zeros.
  void Drain() {
    for (int64_t i = 0; i < elements_; ++i) {
      Push(std::vector<float>(static_cast<size_t>(elements_), 0));
    }
  }

  WorkerCluster cluster_{2};
  int64_t elements_ = 0;
  std::vector<proto::VariableLayout> layouts_;
  proto::Program step_, read_;
};

TEST_F(CompressionTest, ValuesThatArePulledInSixteenBitsAreTheNearestOnes) {
  SetUpVariable(1000, {}, 1.0f / 3);
  // 1/3 in binary is 0.0101...: rounded to 11 digits 0x3555, to 8 digits 0x3eab.
  const std::vector<std::pair<int32_t, float>> nearest = {
      {kFloat16, 0x1.554p-2f}, {kBfloat16, 0x1.56p-2f}, {1, 1.0f / 3}};
  for (const auto& [dtype, expected] : nearest) {
    proto::Program read = read_;
    read.mutable_compression()->set_pull_dtype(dtype);
    ASSERT_TRUE(cluster_.Register(read, layouts_).ok());
    const uint64_t before = Stats(0).bytes_out();
    EXPECT_EQ(Pull(read), std::vector<float>(1000, expected));
    EXPECT_EQ(Stats(0).bytes_out() - before, 500u * (dtype == 1 ? 4 : 2));
  }
}

TEST_F(CompressionTest, GradientsThatArePushedInSixteenBitsAreAppliedInThirtyTwo) {
  proto::Compression compression;
  compression.set_push_dtype(kFloat16);
  SetUpVariable(1000, compression);
  Push(std::vector<float>(1000, 1.0f / 3));
  EXPECT_EQ(Value(), std::vector<float>(1000, -0.5f * 0x1.554p-2f));
  EXPECT_EQ(Stats(0).bytes_in(), 500u * 2);
  // Smaller than float16 tells apart at this value: the sum is a float32.
  Push(std::vector<float>(1000, 0x1p-14f));
  EXPECT_EQ(Value(), std::vector<float>(1000, -0.5f * (0x1.554p-2f + 0x1p-14f)));
}

TEST_F(CompressionTest, TheLargestElementsTravelAndInTheEndEverythingHas) {
  constexpr size_t kElements = 80;
  SetUpVariable(kElements, TopK(0.1));
  SequenceRng rng(3);
  std::vector<float> sum(kElements, 0);
  for (int step = 0; step < 30; ++step) {
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>(rng.Below(201)) - 100;
      sum[i] += gradient[i];
    }
    Push(gradient);
  }
  EXPECT_EQ(Stats(0).bytes_in(), 30u * 4 * 8) << "4 of a slice's 40, 4 bytes of place and of value";
  for (float& element : sum) element *= -0.5f;
  EXPECT_NE(Value(), sum);
  Drain();
  EXPECT_EQ(Value(), sum);
}

TEST_F(CompressionTest, WhereLeavingOutSavesNothingAllElementsTravel) {
  SetUpVariable(8, TopK(0.5));
  Push({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(Value(), ElementsAre(-0.5, -1, -1.5, -2, -2.5, -3, -3.5, -4));
}

// Slices of two elements would not save anything.
class LostTopK : public CompressionTest {
 protected:
  void SetUp() override {
    SetUpVariable(6, TopK(0.3));
    Push({10, 3, 1, 0, 0, 0});
    ASSERT_THAT(Value(), ElementsAre(-5, 0, 0, 0, 0, 0));
  }

  // The next call of Push to ps 0.
  void FailNextPush(Fault fault, int times = 1) {
    auto left = std::make_shared<std::atomic<int>>(times);
    cluster_.faults().SetFaults([=, this](const std::string& address, const std::string& method) {
      if (address != cluster_.ps_address(0) || !absl::StrContains(method, "PsService/Push")) {
        return Fault::kNone;
      }
      return left->fetch_sub(1) > 0 ? fault : Fault::kNone;
    });
  }
};

TEST_F(LostTopK, WhatIsLeftGoesOnce) {
  Drain();
  EXPECT_THAT(Value(), ElementsAre(-5, -1.5, -0.5, 0, 0, 0));
}

TEST_F(LostTopK, APushWhoseAnswerIsLostIsNotAppliedTwiceNorIsItsResidual) {
  FailNextPush(Fault::kLoseResponse);
  Push({0, 0, 0, 0, 0, 0});
  EXPECT_EQ(Stats(0).duplicate_slices(), 1u);
  EXPECT_THAT(Value(), ElementsAre(-5, -1.5, 0, 0, 0, 0));
  Drain();
  EXPECT_THAT(Value(), ElementsAre(-5, -1.5, -0.5, 0, 0, 0));
}

TEST_F(LostTopK, AClosureThatRunsAgainBringsItsGradientOnce) {
  cluster_.SetLease(absl::Milliseconds(1));
  ASSERT_TRUE(cluster_.Attach(1).ok());
  proto::RunClosureRequest closure = cluster_.Closure(step_);
  FailNextPush(Fault::kLoseResponse, 1000);
  // It was applied, and nobody knows: 3 + 4 travelled, 2 of the gradient is lost.
  EXPECT_FALSE(Run(closure, {2, 4, 0, 0, 0, 0}).ok());
  EXPECT_THAT(Value(), ElementsAre(-5, -3.5, 0, 0, 0, 0));
  FailNextPush(Fault::kNone, 0);
  closure.set_attempt(2);
  EXPECT_TRUE(Run(closure, {2, 4, 0, 0, 0, 0}).ok());
  Drain();
  EXPECT_THAT(Value(), ElementsAre(-5, -3.5, -0.5, 0, 0, 0));
}

TEST_F(LostTopK, APushThatNeverArrivedCostsWhatItCarriedOfTheResidual) {
  cluster_.SetLease(absl::Milliseconds(1));
  ASSERT_TRUE(cluster_.Attach(1).ok());
  proto::RunClosureRequest closure = cluster_.Closure(step_);
  FailNextPush(Fault::kRefuse, 1000);
  EXPECT_FALSE(Run(closure, {2, 4, 0, 0, 0, 0}).ok());
  FailNextPush(Fault::kNone, 0);
  closure.set_attempt(2);
  EXPECT_TRUE(Run(closure, {2, 4, 0, 0, 0, 0}).ok());
  Drain();
  EXPECT_THAT(Value(), ElementsAre(-6, -2, -0.5, 0, 0, 0)) << "the 3 that was left is lost";
}

TEST_F(LostTopK, ANewEpochBeginsWithNothingLeft) {
  ASSERT_TRUE(cluster_.Attach(2).ok());
  RegisterAll();
  Drain();
  EXPECT_THAT(Value(), ElementsAre(-5, 0, 0, 0, 0, 0));
}

TEST_F(CompressionTest, WhatIsNoCompressionIsRefused) {
  SetUpVariable(8, {});
  for (int field = 0; field < 3; ++field) {
    proto::Compression compression;
    if (field == 0) compression.set_pull_dtype(7);
    if (field == 1) compression.set_push_dtype(11);
    if (field == 2) compression.set_top_k(1.5);
    EXPECT_EQ(cluster_.Register(PushArgument(compression), layouts_).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace cohort
