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

TEST(FindRow, ExamplesOfTensorFlow) {  // sizes 11, 11, 10
  EXPECT_EQ(FindRow(10, 32, 3).slice, 0);
  EXPECT_EQ(FindRow(10, 32, 3).local_row, 10);
  EXPECT_EQ(FindRow(22, 32, 3).slice, 2);
  EXPECT_EQ(FindRow(22, 32, 3).local_row, 0);
}

TEST(FindRow, AgreesWithASearchOfTheRanges) {
  for (int64_t rows = 1; rows <= 40; ++rows) {
    for (int64_t slices = 1; slices <= 45; ++slices) {
      const std::vector<RowRange> ranges = DivRows(rows, slices);
      for (int64_t slice = 0; slice < static_cast<int64_t>(ranges.size()); ++slice) {
        const RowRange& range = ranges[static_cast<size_t>(slice)];
        for (int64_t local = 0; local < range.count; ++local) {
          const SliceRow found = FindRow(range.begin + local, rows, slices);
          ASSERT_EQ(found.slice, slice) << rows << " rows in " << slices;
          ASSERT_EQ(found.local_row, local);
        }
      }
    }
  }
}

TEST(SliceSpecDeathTest, RefusesRowsThatDoNotExist) {
  EXPECT_DEATH(FindRow(32, 32, 3), "a row of the variable");
  EXPECT_DEATH(FindRow(-1, 32, 3), "a row of the variable");
  EXPECT_DEATH(DivRows(0, 1), "at least one row");
}

}  // namespace
}  // namespace cohort
