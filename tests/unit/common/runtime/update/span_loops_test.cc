#include "common/runtime/kernels/cpu/span_loops.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/runtime/kernels/dropout_support.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

std::vector<float> Apply(UnaryOp op, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  UnaryLoop(op, x.data(), {y.data(), static_cast<int64_t>(x.size())});
  return y;
}

// Error in units of the last place of the right result, itself rounded to float32.
double UlpError(float actual, double expected) {
  const float rounded = std::abs(static_cast<float>(expected));
  const double ulp = static_cast<double>(std::nextafter(rounded, INFINITY)) - rounded;
  return std::abs(static_cast<double>(actual) - expected) / ulp;
}

TEST(SpanLoopsTest, ExpIsWithinTwoUlp) {
  std::vector<float> x;
  for (int i = 0; i < 400000; ++i) x.push_back(-87.3f + static_cast<float>(i) * 4.4e-4f);
  const std::vector<float> y = Apply(UnaryOp::kExp, x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(UlpError(y[i], std::exp(static_cast<double>(x[i]))), 2.0) << "exp " << x[i];
  }
}

TEST(SpanLoopsTest, ExpAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y =
      Apply(UnaryOp::kExp, {0, -infinity, infinity, std::nanf(""), -1000, 1000, -103, 88.72f});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], infinity);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0);
  EXPECT_EQ(y[5], infinity);
  EXPECT_NEAR(y[6], std::exp(-103.0), 1.5e-45);  // a subnormal, one unit
  EXPECT_NEAR(y[7] / std::exp(88.72f), 1, 1e-6);
}

TEST(SpanLoopsTest, SigmoidAndTanhKeepSixDigits) {
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) * 5e-4f);
  for (const float tiny : {1e-20f, -1e-8f, 1e-4f, 0.2499f, 0.2501f}) x.push_back(tiny);
  const std::vector<float> sigmoid = Apply(UnaryOp::kSigmoid, x);
  const std::vector<float> tanh = Apply(UnaryOp::kTanh, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    ASSERT_NEAR(sigmoid[i], 1 / (1 + std::exp(-value)), 1e-6 / (1 + std::exp(-value))) << value;
    ASSERT_NEAR(tanh[i], std::tanh(value), 1e-6 * std::abs(std::tanh(value))) << value;
  }
}

TEST(SpanLoopsTest, MaskAgreesWithItsDefinitionFromAnyElementOn) {
  const RandomStream stream(3, "mask");
  constexpr uint32_t kThreshold = 20000;
  for (uint64_t first = 0; first < 9; ++first) {
    for (int64_t count = 0; count < 19; ++count) {
      bool mask[19] = {};
      MaskLoop(stream, {mask, count, first, kThreshold});
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(mask[i], DropoutKeeps(stream, first + static_cast<uint64_t>(i), kThreshold));
      }
    }
  }
}

TEST(SpanLoopsTest, SumOfAnyLength) {
  std::vector<float> x;
  for (int64_t count = 0; count < 70; ++count) {
    EXPECT_EQ(SumLoop(x.data(), count), static_cast<float>(count * (count + 1) / 2));
    x.push_back(static_cast<float>(count + 1));
  }
}

}  // namespace
}  // namespace cohort
