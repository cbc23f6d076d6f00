// Boundaries that Keras 3.15's Discretization adapted to (the rows layers/k3 Discretization adapt
// of its golden values), and properties of counts that are joined.

#include "common/preprocessing/quantiles.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;

ValueCounts Counted(const std::vector<float>& values) {
  ValueCounts counts;
  for (const float value : values) counts.Add(value);
  return counts;
}

TEST(ValueCounts, BoundariesAreThoseOfKeras) {
  std::vector<float> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(static_cast<float>(i));
  EXPECT_THAT(Counted(hundred).Boundaries(4),
              ElementsAre(FloatNear(24.999983f, 3e-5f), FloatNear(49.999981f, 3e-5f),
                          FloatNear(74.999985f, 3e-5f)));
  EXPECT_THAT(Counted({10, 1, 1, 2, 1}).Boundaries(3),
              ElementsAre(1.0f, FloatNear(1.3333333f, 1e-6f)));
}

TEST(ValueCounts, NumbersOfAnySignAreInOrder) {
  const float denormal = 1e-42f;
  EXPECT_THAT(Counted({3, -2, -0.0f, 0.0f, denormal, -1e30f}).Boundaries(6),
              ElementsAre(-1e30f, -2.0f, 0.0f, 0.0f, denormal));
  EXPECT_TRUE(Counted({}).Boundaries(3).empty());
  EXPECT_THAT(Counted({7}).Boundaries(3), ElementsAre(7, 7));
  EXPECT_TRUE(Counted({7}).Boundaries(1).empty());
}

// Counts of parts give the same as those of the whole, in any order, also where low bits are
// dropped.
TEST(ValueCounts, PartsAreJoinedInAnyOrder) {
  std::mt19937 random(5);
  std::vector<float> values(ValueCounts::kDistinctMax * 5 / 2);
  for (float& value : values) value = std::uniform_real_distribution<float>(1, 2)(random);
  const ValueCounts whole = Counted(values);
  EXPECT_GT(whole.dropped(), 0);
  ValueCounts joined;
  const size_t part = values.size() / 5;
  for (const size_t i : {3, 0, 4, 1, 2}) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * part);
    const ValueCounts counts = Counted({begin, begin + static_cast<std::ptrdiff_t>(part)});
    joined.Join(counts.counts(), counts.dropped());
  }
  EXPECT_EQ(joined.dropped(), whole.dropped());
  EXPECT_EQ(joined.Boundaries(10), whole.Boundaries(10));
  // The bound on the error holds.
  std::sort(values.begin(), values.end());
  const std::vector<float> boundaries = whole.Boundaries(10);
  for (size_t k = 1; k < 10; ++k) {
    const float exact = values[values.size() * k / 10 - 1];
    EXPECT_NEAR(boundaries[k - 1], exact, exact * std::ldexp(1.0, whole.dropped() - 24)) << k;
  }
}

}  // namespace
}  // namespace cohort
