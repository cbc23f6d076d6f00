#include "common/tensor/slice_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Counts(int64_t rows, int64_t slices) {
  std::vector<int64_t> counts;
  for (const RowRange& range : DivRows(rows, slices)) counts.push_back(range.count);
  return counts;
}

// The vectors that TensorFlow's own tests state for its "div" layout.
TEST(DivRows, VectorsOfTensorFlow) {
  EXPECT_THAT(Counts(13, 5), ElementsAre(3, 3, 3, 2, 2));
  EXPECT_THAT(Counts(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(Counts(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(Counts(3, 4), ElementsAre(1, 1, 1));
  EXPECT_THAT(Counts(1000, 3), ElementsAre(334, 333, 333));
  EXPECT_THAT(Counts(1, 1), ElementsAre(1));
}

TEST(DivRows, SlicesCoverAllRowsOnce) {
  for (int64_t rows = 1; rows <= 40; ++rows) {
    for (int64_t slices = 1; slices <= 45; ++slices) {
      int64_t next = 0;
      for (const RowRange& range : DivRows(rows, slices)) {
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count, 1);
        next += range.count;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(SliceSpecDeathTest, RefusesRowsThatDoNotExist) {
  EXPECT_DEATH(DivRows(0, 1), "at least one row");
}

}  // namespace
}  // namespace cohort
