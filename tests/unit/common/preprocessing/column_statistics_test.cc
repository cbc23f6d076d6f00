#include "common/preprocessing/column_statistics.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// Joins the statistics of parts of [1, 3], [2, 4], …
TEST(ColumnStatistics, PartsGiveTheMomentsOfTheWhole) {
  const std::vector<double> values = {1, 2, 3, 4, 1e9, 1e9 + 1, 5, 6, 7};
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    ColumnStatistics first(1);
    ColumnStatistics second(1);
    for (size_t i = 0; i < values.size(); ++i) {
      (i < cut ? first : second).AddToMoments(0, values[i]);
    }
    ColumnStatistics all;
    ASSERT_TRUE(all.Join(first.ToProto()).ok());
    ASSERT_TRUE(all.Join(second.ToProto()).ok());
    ASSERT_EQ(all.moments().size(), 1u);
    EXPECT_EQ(all.moments()[0].count, 9);
    EXPECT_NEAR(all.moments()[0].mean, 2000000029.0 / 9, 1e-6) << cut;
    // The variance of the same numbers by Python's fractions module.
    EXPECT_NEAR(all.moments()[0].Variance() / 1.7283950496296298e17, 1, 1e-12) << cut;
  }
}

TEST(ColumnStatistics, KerasAdaptsToTheSameNumbers) {
  // The row layers/k3 Normalization adapt of Keras's golden values: mean and variance 2.5, 225.
  ColumnStatistics statistics(2);
  const double rows[][2] = {{1, 10}, {2, 20}, {4, 20}, {5, 50}};
  for (const auto& row : rows) {
    statistics.AddToMoments(0, row[0]);
    statistics.AddToMoments(1, row[1]);
  }
  EXPECT_THAT(statistics.moments()[0].mean, DoubleEq(3));
  EXPECT_THAT(statistics.moments()[0].Variance(), DoubleEq(2.5));
  EXPECT_THAT(statistics.moments()[1].mean, DoubleEq(25));
  EXPECT_THAT(statistics.moments()[1].Variance(), DoubleEq(225));
}

TEST(ColumnStatistics, NumbersThatAreNotFiniteAreCountedAlone) {
  ColumnStatistics statistics(1);
  statistics.AddToMoments(0, NAN);
  statistics.AddToMoments(0, 2);
  statistics.AddValue(INFINITY);
  statistics.AddValue(1e300);  // no float32
  statistics.AddValue(3);
  ColumnStatistics joined;
  ASSERT_TRUE(joined.Join(statistics.ToProto()).ok());
  EXPECT_EQ(joined.not_finite(), 3);
  EXPECT_EQ(joined.moments()[0].mean, 2);
  EXPECT_THAT(joined.values().Boundaries(2), ElementsAre(3));
}

TEST(ColumnStatistics, PartsOfAnotherFormAreRefused) {
  ColumnStatistics statistics(2);
  proto::ColumnStatistics other;
  other.add_moments();
  EXPECT_THAT(statistics.Join(other).message(), HasSubstr("1 moments"));
  other.add_moments();
  other.add_tokens("a");
  EXPECT_THAT(statistics.Join(other).message(), HasSubstr("1 tokens with 0 counts"));
  other.add_token_counts(3);
  other.set_dropped_bits(40);
  EXPECT_THAT(statistics.Join(other).message(), HasSubstr("40 dropped bits"));
  other.set_dropped_bits(0);
  EXPECT_TRUE(statistics.Join(other).ok());
  // Counts come from a peer; a quantile of negative ones would be looked for behind the last
  // number.
  const auto is_refused = [&](const auto& change) {
    proto::ColumnStatistics bad = other;
    change(bad);
    return statistics.Join(bad).message().find("cannot be") != absl::string_view::npos;
  };
  EXPECT_TRUE(is_refused([](auto& bad) { bad.set_token_counts(0, -1); }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.mutable_moments(0)->set_count(-1); }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.mutable_moments(1)->set_mean(NAN); }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.set_not_finite(-1); }));
  EXPECT_TRUE(is_refused([](auto& bad) {
    bad.add_values(1);
    bad.add_value_counts(INT64_MAX);
  }));
}

}  // namespace
}  // namespace cohort
