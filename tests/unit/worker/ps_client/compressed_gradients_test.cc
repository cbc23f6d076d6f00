
#include "worker/ps_client/compressed_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(LargestElements, AreThoseOfTheLargestSizeAndOfEqualOnesTheFirst) {
  EXPECT_THAT(LargestElements({1, -5, 3, -2}, 2), ElementsAre(1, 2));
  EXPECT_THAT(LargestElements({2, -2, 2, -2}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(LargestElements({0, -0.0f, 0}, 2), ElementsAre(0, 1));
  EXPECT_THAT(LargestElements({1, kNan, 3e38f, INFINITY}, 2), ElementsAre(1, 3));
  EXPECT_THAT(LargestElements({1, 2}, 0), IsEmpty());
  EXPECT_THAT(LargestElements({1, 2}, 2), ElementsAre(0, 1));
}

TEST(LargestElements, RandomOnesAgreeWithASort) {
  SequenceRng rng(5);
  for (int run = 0; run < 300; ++run) {
    std::vector<float> elements(1 + rng.Below(100));
    for (float& element : elements) element = static_cast<float>(rng.Below(20)) - 10;
    const size_t count = rng.Below(elements.size() + 1);
    std::vector<int32_t> order(elements.size());
    std::iota(order.begin(), order.end(), 0);
    const auto size = [&](int32_t i) { return std::abs(elements[static_cast<size_t>(i)]); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return size(a) > size(b); });
    order.resize(count);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(LargestElements(elements, count), order);
  }
}

void Apply(const TopK& kept, std::vector<double>& sum) {
  ASSERT_EQ(kept.values.dtype(), DType::kFloat32);
  for (int64_t i = 0; i < kept.positions.num_elements(); ++i) {
    sum[static_cast<size_t>(kept.positions.data<int32_t>()[i])] += kept.values.data<float>()[i];
  }
}

// Whole numbers, whose sums floats hold exactly.
TEST(KeepLargest, WhatIsSentAndWhatIsLeftAreTheGradientsAndWhatIsLeftIsSentInTheEnd) {
  constexpr size_t kElements = 50;
  constexpr size_t kKept = 4;
  SequenceRng rng(7);
  std::vector<double> gradients(kElements, 0), sent(kElements, 0);
  std::vector<float> left;
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>(rng.Below(2001)) - 1000;
      gradients[i] += gradient[i];
    }
    TopK kept = KeepLargest(gradient, std::move(left), kKept, DType::kFloat32);
    EXPECT_EQ(kept.positions.num_elements(), static_cast<int64_t>(kKept));
    Apply(kept, sent);
    left = std::move(kept.left_if_taken);
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(sent[i] + left[i], gradients[i]);
  }
  EXPECT_NE(sent, gradients);
  const std::vector<float> zeros(kElements, 0);
  for (size_t step = 0; step < (kElements + kKept - 1) / kKept; ++step) {
    TopK kept = KeepLargest(zeros, std::move(left), kKept, DType::kFloat32);
    Apply(kept, sent);
    left = std::move(kept.left_if_taken);
  }
  EXPECT_EQ(sent, gradients);
  EXPECT_THAT(left, Each(0.0f));
}

TEST(KeepLargest, WhereNobodyKnowsTheEndOnlyWhatDidNotTravelIsLeft) {
  const TopK kept = KeepLargest({1, 2, 3}, {5, 0, 1}, 1, DType::kFloat32);
  EXPECT_THAT(kept.positions.span<int32_t>(), ElementsAre(0));
  EXPECT_THAT(kept.values.span<float>(), ElementsAre(6));
  EXPECT_THAT(kept.left_if_taken, ElementsAre(0, 2, 4));
  EXPECT_THAT(kept.left_otherwise, ElementsAre(0, 0, 1));
  EXPECT_THAT(KeepLargest({1, 2}, {}, 1, DType::kFloat32).left_otherwise, IsEmpty());
}

TEST(KeepLargest, WhatSixteenBitsDoNotHoldIsLeft) {
  // bfloat16 has 8 bits of digits: of 257 it holds 256 (ties to even), of 3 all.
  const TopK kept = KeepLargest({257, 1, 3}, {}, 2, DType::kBfloat16);
  EXPECT_EQ(kept.values.dtype(), DType::kBfloat16);
  EXPECT_THAT(kept.left_if_taken, ElementsAre(1, 1, 0));
  // Beyond what float16 holds the value is infinite, and nothing is left of it.
  EXPECT_THAT(KeepLargest({1e6f, 1}, {}, 1, DType::kFloat16).left_if_taken, ElementsAre(0, 1));
}

TEST(GradientResiduals, AreTakenOnceAndAddUp) {
  GradientResiduals residuals;
  EXPECT_THAT(residuals.Take(1, 7, 2), IsEmpty());
  residuals.Add(1, 7, {1, 2});
  residuals.Add(1, 7, {10, 20});
  residuals.Add(1, 8, {5});
  EXPECT_THAT(residuals.Take(1, 7, 2), ElementsAre(11, 22));
  EXPECT_THAT(residuals.Take(1, 7, 2), IsEmpty());
  EXPECT_THAT(residuals.Take(1, 8, 1), ElementsAre(5));
}

TEST(GradientResiduals, EndWithTheirEpoch) {
  GradientResiduals residuals;
  EXPECT_THAT(residuals.Take(1, 7, 2), IsEmpty());
  residuals.Add(1, 7, {1, 2});
  EXPECT_THAT(residuals.Take(2, 7, 2), IsEmpty());
  residuals.Add(1, 7, {1, 2});  // of a push that ended late
  EXPECT_THAT(residuals.Take(2, 7, 2), IsEmpty());
  residuals.Add(2, 7, {3, 4});
  EXPECT_THAT(residuals.Take(1, 7, 2), IsEmpty());
  EXPECT_THAT(residuals.Take(2, 7, 2), ElementsAre(3, 4));
}

}  // namespace
}  // namespace cohort
