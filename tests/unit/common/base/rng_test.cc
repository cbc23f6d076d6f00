#include "common/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

// The outputs of SplitMix64 for seed 1234567, as published with many implementations of it: output
// i is the mix of seed + (i + 1) * golden ratio.
TEST(Mix64, PublishedOutputsOfSplitMix64) {
  const std::array<uint64_t, 5> published = {6457827717110365317u, 3203168211198807973u,
                                             9817491932198370423u, 4593380528125082431u,
                                             16408922859458223821u};
  for (uint64_t i = 0; i < published.size(); ++i) {
    EXPECT_EQ(Mix64(1234567u + (i + 1) * 0x9e3779b97f4a7c15u), published[i]);
  }
}

// The published test values of 64-bit FNV-1a.
TEST(StableHash, PublishedValuesOfFnv1a) {
  EXPECT_EQ(StableHash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(StableHash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(StableHash("foobar"), 0x85944171f73967e8u);
}

TEST(RandomStream, DependsOnSeedNameAndIndexOnly) {
  const RandomStream stream(7, "dense/kernel");
  EXPECT_EQ(stream.Bits(1000), RandomStream(7, "dense/kernel").Bits(1000));
  EXPECT_NE(stream.Bits(1000), RandomStream(8, "dense/kernel").Bits(1000));
  EXPECT_NE(stream.Bits(1000), RandomStream(7, "dense/bias").Bits(1000));
  EXPECT_NE(stream.Bits(1000), stream.Bits(1001));
  EXPECT_NE(stream.Child(0).Bits(0), stream.Child(1).Bits(0));
  EXPECT_NE(stream.Child(0).Bits(0), stream.Bits(0));
}

// Computed by an independent implementation (Python's integers). Start values of variables and
// masks come from here, so a change of these numbers changes every seeded result.
TEST(RandomStream, GoldenValues) {
  constexpr RandomStream stream(42, "golden");
  EXPECT_EQ(stream.key(), 0xad9b10155bfcd6e2u);
  EXPECT_EQ(stream.Bits(3), 0x7f3a24fb303c0df0u);
  EXPECT_EQ(stream.Uniform(3), 8337956.0f / 16777216.0f);
  EXPECT_EQ(stream.Below(3, 10), 4u);
  EXPECT_NEAR(stream.Normal(3), 0.446241627, 1e-6);
  EXPECT_EQ(stream.Child(5).Bits(0), 0x2a1c0c9b18b11b92u);
}

TEST(RandomStream, UniformMomentsAndRange) {
  const RandomStream stream(1, "uniform");
  constexpr int kCount = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.Uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  // Standard errors: 0.29 / sqrt(n) = 0.0006 and 0.3 / sqrt(n).
  EXPECT_NEAR(sum / kCount, 0.5, 0.004);
  EXPECT_NEAR(squares / kCount, 1.0 / 3.0, 0.004);
}

TEST(RandomStream, NormalMoments) {
  const RandomStream stream(1, "normal");
  constexpr int kCount = 200000;
  std::array<double, 5> moment = {};
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = stream.Normal(static_cast<uint64_t>(i));
    ASSERT_TRUE(std::isfinite(z));
    beyond_two += std::fabs(z) > 2.0 ? 1 : 0;
    for (int k = 1; k <= 4; ++k) moment[static_cast<size_t>(k)] += std::pow(z, k) / kCount;
  }
  EXPECT_NEAR(moment[1], 0.0, 0.015);
  EXPECT_NEAR(moment[2], 1.0, 0.02);
  EXPECT_NEAR(moment[3], 0.0, 0.06);
  EXPECT_NEAR(moment[4], 3.0, 0.15);
  EXPECT_NEAR(beyond_two / static_cast<double>(kCount), 0.0455, 0.003);
}

TEST(RandomStream, BelowIsEvenAndInRange) {
  const RandomStream stream(5, "below");
  std::array<int, 7> count = {};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++count.at(stream.Below(static_cast<uint64_t>(i), 7));
  double chi_square = 0;
  for (const int n : count) chi_square += (n - 10000.0) * (n - 10000.0) / 10000.0;
  EXPECT_LT(chi_square, 22.5);  // 0.1 % point with 6 degrees of freedom
}

TEST(SequenceRng, SameSeedSameSequenceAndNoShortCycle) {
  SequenceRng a(9), b(9), c(10);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    EXPECT_NE(value, c.Next());
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace cohort
