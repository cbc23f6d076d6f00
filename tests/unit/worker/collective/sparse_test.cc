#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/support/communicators/sparse_all_reduce.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/conformance/reference.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SparseRows RowsOf(DType dtype, int64_t row_elements, std::vector<int64_t> ids,
                  const std::vector<double>& values) {
  return {dtype, false, row_elements, std::move(ids), ToBytes(dtype, {values, {}})};
}

std::vector<double> ValuesOf(const SparseRows& rows) {
  return FromBytes(rows.dtype, rows.rows).floats;
}

std::vector<absl::StatusOr<SparseRows>> ReduceAll(LaneRanks& ranks, std::vector<SparseCall> calls) {
  std::vector<std::unique_ptr<SparseAllReduce>> reducers;
  std::vector<absl::StatusOr<SparseRows>> results(calls.size());
  std::vector<Event> done(calls.size());
  for (size_t r = 0; r < calls.size(); ++r) {
    reducers.push_back(
        std::make_unique<SparseAllReduce>(ranks.Of(static_cast<int>(r)), ranks.executor()));
    reducers.back()->Start(std::move(calls[r]),
                           [&results, &done, r](absl::StatusOr<SparseRows> result) {
                             results[r] = std::move(result);
                             done[r].Notify();
                           });
  }
  for (Event& one : done) EXPECT_TRUE(ranks.waiter().Wait(one, absl::Minutes(1)));
  return results;
}

LaneRanks Ranks(int size) {
  LaneGroupSpec spec;
  spec.size = size;
  return LaneRanks(std::make_shared<SimLaneWorld>(3, size), spec);
}

SparseCall CallOf(SparseRows mine, SparseForm form, ReduceOp reduce) {
  return {"embedding", form, reduce, 10, std::move(mine)};
}

// values and indices one after another, nothing summed; the mean divides values by the number of
// replicas: cross_device_utils' all-gather of IndexedSlices.
TEST(SparseAllReduce, ConcatenatedAsTensorFlow) {
  LaneRanks ranks = Ranks(3);
  const auto results = ReduceAll(
      ranks,
      {CallOf(RowsOf(DType::kFloat32, 2, {7, 7}, {1, 2, 3, 4}), SparseForm::kConcatenated,
              ReduceOp::kMean),
       CallOf(RowsOf(DType::kFloat32, 2, {}, {}), SparseForm::kConcatenated, ReduceOp::kMean),
       CallOf(RowsOf(DType::kFloat32, 2, {0, 7, 9}, {6, 6, 9, 9, 3, 0}), SparseForm::kConcatenated,
              ReduceOp::kMean)});
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->ids, ElementsAre(7, 7, 0, 7, 9));
    EXPECT_THAT(ValuesOf(*result), ElementsAre(1 / 3.0f, 2 / 3.0f, 1, 4 / 3.0f, 2, 2, 3, 3, 1, 0));
  }
}

TEST(SparseAllReduce, MergedHasEachIdOnce) {
  LaneRanks ranks = Ranks(3);
  const auto results = ReduceAll(
      ranks, {CallOf(RowsOf(DType::kFloat32, 2, {7, 7}, {1, 2, 3, 4}), SparseForm::kMerged,
                     ReduceOp::kSum),
              CallOf(RowsOf(DType::kFloat32, 2, {}, {}), SparseForm::kMerged, ReduceOp::kSum),
              CallOf(RowsOf(DType::kFloat32, 2, {9, 0, 7}, {3, 0, 6, 6, 9, 9}), SparseForm::kMerged,
                     ReduceOp::kSum)});
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->ids, ElementsAre(0, 7, 9));
    EXPECT_THAT(ValuesOf(*result), ElementsAre(6, 6, 13, 15, 3, 0));
  }
}

// The table with the rows of one rank summed into it, as a dense gradient.
Bytes Dense(const SparseRows& rows, int64_t table_rows) {
  const SparseRows merged = Finished(MergeOwn(rows), 1);
  Bytes dense(static_cast<size_t>(table_rows) * merged.RowBytes());
  for (size_t i = 0; i < merged.ids.size(); ++i) {
    std::copy_n(merged.rows.begin() + static_cast<int64_t>(i * merged.RowBytes()),
                merged.RowBytes(),
                dense.begin() + merged.ids[i] * static_cast<int64_t>(merged.RowBytes()));
  }
  return dense;
}

// What the sparse form gives is what the dense one gives, to the bit: both sum by the tree.
TEST(SparseAllReduce, EqualsTheDenseSum) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(Replay("collective_test", seed, "SparseAllReduce.EqualsTheDenseSum"));
    SequenceRng rng(seed);
    const int n = 1 + static_cast<int>(rng.Below(7));
    const int64_t table_rows = 1 + static_cast<int64_t>(rng.Below(40));
    const auto row_elements = static_cast<int64_t>(1 + rng.Below(5));
    const ReduceOp reduce = rng.Below(2) == 0 ? ReduceOp::kSum : ReduceOp::kMean;
    LaneRanks ranks = Ranks(n);
    std::vector<SparseCall> calls;
    std::vector<Bytes> dense;
    for (int rank = 0; rank < n; ++rank) {
      SparseRows mine{DType::kFloat32, false, row_elements, {}, {}};
      // Each id once in a rank: the sum of a rank's own rows has no dense twin in one rounding.
      for (int64_t id = 0; id < table_rows; ++id) {
        if (rng.Below(3) == 0) mine.ids.push_back(table_rows - 1 - id);
      }
      mine.rows =
          RandomInput(DType::kFloat32, ReduceOp::kSum, mine.count() * row_elements, rng.Next());
      dense.push_back(Dense(mine, table_rows));
      calls.push_back({"table", SparseForm::kMerged, reduce, table_rows, std::move(mine)});
    }
    CollectiveCall all_reduce;
    all_reduce.op = CollectiveOp::kAllReduce;
    all_reduce.reduce = reduce;
    all_reduce.count = table_rows * row_elements;
    const Bytes wanted = ExpectedOutputs(CallsOf(n, all_reduce), dense)[0];
    for (const auto& result : ReduceAll(ranks, std::move(calls))) {
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_TRUE(std::is_sorted(result->ids.begin(), result->ids.end()));
      ASSERT_EQ(Difference(DType::kFloat32, Dense(*result, table_rows), wanted), "");
    }
  }
}

TEST(SparseAllReduce, SixteenBitRowsRoundOnce) {
  LaneRanks ranks = Ranks(3);
  // 256 + 1 + 1 in bfloat16: each addition alone would round back to 256.
  const auto results = ReduceAll(
      ranks, {CallOf(RowsOf(DType::kBfloat16, 1, {1}, {256}), SparseForm::kMerged, ReduceOp::kSum),
              CallOf(RowsOf(DType::kBfloat16, 1, {1}, {1}), SparseForm::kMerged, ReduceOp::kSum),
              CallOf(RowsOf(DType::kBfloat16, 1, {1}, {1}), SparseForm::kMerged, ReduceOp::kSum)});
  for (const auto& result : results) EXPECT_THAT(ValuesOf(*result), ElementsAre(258));
}

TEST(SparseAllReduce, SeveralOneAfterAnother) {
  LaneRanks ranks = Ranks(2);
  SparseAllReduce zero(ranks.Of(0), ranks.executor());
  SparseAllReduce one(ranks.Of(1), ranks.executor());
  std::vector<std::vector<double>> results(6);
  std::vector<Event> done(6);
  for (int i = 0; i < 3; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto slot = static_cast<size_t>(2 * i + rank);
      SparseAllReduce& reducer = rank == 0 ? zero : one;
      reducer.Start(
          CallOf(RowsOf(DType::kFloat32, 1, {i}, {i + 1.0}), SparseForm::kMerged, ReduceOp::kSum),
          [&results, &done, slot](absl::StatusOr<SparseRows> result) {
            EXPECT_TRUE(result.ok()) << result.status();
            if (result.ok()) results[slot] = ValuesOf(*result);
            done[slot].Notify();
          });
    }
  }
  for (Event& event : done) ASSERT_TRUE(ranks.waiter().Wait(event, absl::Minutes(1)));
  for (size_t i = 0; i < 6; ++i) EXPECT_THAT(results[i], ElementsAre(2.0 * (i / 2 + 1)));
}

TEST(SparseAllReduce, WrongIdEndsTheGroupOnAllRanks) {
  LaneRanks ranks = Ranks(2);
  const auto results = ReduceAll(
      ranks, {CallOf(RowsOf(DType::kFloat32, 1, {10}, {1}), SparseForm::kMerged, ReduceOp::kSum),
              CallOf(RowsOf(DType::kFloat32, 1, {1}, {1}), SparseForm::kMerged, ReduceOp::kSum)});
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr("'embedding': the id 10 is not in a table of 10 rows"));
    EXPECT_EQ(result.status(), results[0].status());
  }
}

}  // namespace
}  // namespace cohort
