// What a summary says of tables: parts of a table add up, copies of one count once.

#include "coordinator/homes/ps_stats_sum.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(PsStatsSum, PartsOfTablesAddUpAndCopiesCountOnce) {
  EXPECT_FALSE(TablesOf(proto::PsStatsResponse()).has_value());
  proto::PsStatsResponse sum;
  for (const uint64_t home : {1, 2, 3}) {
    proto::PsStatsResponse one;
    one.mutable_tables()->set_rows(10 * home);
    one.mutable_tables()->set_bytes(100);
    one.mutable_mirrored_tables()->set_rows(1000);
    // The second one has its copy for a shorter time.
    one.mutable_mirrored_tables()->set_evicted_rows(home == 2 ? 3 : 7);
    AddPsStats(one, sum);
  }
  const std::optional<proto::DynamicTableUse> tables = TablesOf(sum);
  ASSERT_TRUE(tables.has_value());
  EXPECT_EQ(tables->rows(), 1060u);
  EXPECT_EQ(tables->bytes(), 300u);
  EXPECT_EQ(tables->evicted_rows(), 7u);
}

}  // namespace
}  // namespace cohort
