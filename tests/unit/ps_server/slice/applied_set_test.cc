#include "ps_server/slice/applied_set.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "common/wire/error_detail.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using Intervals = std::vector<AppliedSet::Interval>;

Intervals Held(const AppliedSet& set) { return {set.intervals().begin(), set.intervals().end()}; }

TEST(AppliedSet, NeighboursGrowTogetherIntoOneInterval) {
  AppliedSet set;
  for (const uint64_t id : {5, 7, 9, 3}) EXPECT_TRUE(*set.Insert(id));
  EXPECT_EQ(Held(set), (Intervals{{3, 3}, {5, 5}, {7, 7}, {9, 9}}));
  EXPECT_TRUE(*set.Insert(6));
  EXPECT_TRUE(*set.Insert(10));
  EXPECT_TRUE(*set.Insert(2));
  EXPECT_EQ(Held(set), (Intervals{{2, 3}, {5, 7}, {9, 10}}));
  for (const uint64_t id : {2, 3, 5, 6, 7, 9, 10}) EXPECT_FALSE(*set.Insert(id));
  for (const uint64_t id : {1, 4, 8, 11}) EXPECT_FALSE(set.Contains(id));
}

TEST(AppliedSet, InOrderClosuresAreOneInterval) {
  AppliedSet set;
  for (uint64_t id = 1; id <= 100000; ++id) ASSERT_TRUE(*set.Insert(id));
  EXPECT_EQ(Held(set), (Intervals{{1, 100000}}));
}

TEST(AppliedSet, BelowTheWatermarkEverythingIsContainedAndNothingHeld) {
  AppliedSet set;
  for (const uint64_t id : {2, 5, 6, 7, 9}) ASSERT_TRUE(set.Insert(id).ok());
  set.RaiseWatermark(6);
  EXPECT_EQ(Held(set), (Intervals{{6, 7}, {9, 9}}));
  EXPECT_TRUE(set.Contains(1) && set.Contains(5) && set.Contains(6));
  EXPECT_FALSE(set.Contains(8));
  EXPECT_FALSE(*set.Insert(3));
  set.RaiseWatermark(4);
  EXPECT_EQ(set.watermark(), 6u);
  set.RaiseWatermark(1000);
  EXPECT_EQ(set.size(), 0u);
}

TEST(AppliedSet, TakesTheHighestIds) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  AppliedSet set;
  for (const uint64_t id : {most, most - 2, most - 1}) EXPECT_TRUE(*set.Insert(id));
  EXPECT_EQ(Held(set), (Intervals{{most - 2, most}}));
  EXPECT_FALSE(*set.Insert(most));
  EXPECT_TRUE(*set.Insert(0));
  EXPECT_FALSE(set.Contains(1));
}

// Every second closure is the worst case: nothing joins.
TEST(AppliedSet, AFullSetRefusesWhatNeedsRoomAndTakesNoMoreMemoryThanItsBound) {
  AppliedSet set;
  for (uint64_t i = 0; i < kAppliedIntervalsMax; ++i) ASSERT_TRUE(set.Insert(1 + 2 * i).ok());
  EXPECT_LE(set.memory_bytes(), size_t{512} << 10);
  const uint64_t beyond = 10 * kAppliedIntervalsMax;
  const absl::Status full = set.Insert(beyond).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ClassOf(full), proto::TRANSIENT);
  EXPECT_FALSE(set.Contains(beyond));
  EXPECT_FALSE(*set.Insert(1)) << "a repeat needs no room";
  EXPECT_TRUE(*set.Insert(2)) << "nor does one that joins others";
  EXPECT_TRUE(*set.Insert(beyond)) << "and that made room";
  EXPECT_FALSE(set.Insert(beyond + 2).ok());
  set.RaiseWatermark(5);
  EXPECT_TRUE(*set.Insert(beyond + 2));
  EXPECT_LE(set.memory_bytes(), size_t{512} << 10);
}

TEST(AppliedSet, AnyIntervalsFromAFileAreCheckedBeforeTheyAreBelieved) {
  const auto from = [](uint64_t watermark, Intervals intervals) {
    return AppliedSet::FromIntervals(watermark, std::move(intervals)).status().code();
  };
  EXPECT_EQ(from(3, {{3, 4}, {6, 6}}), absl::StatusCode::kOk);
  EXPECT_EQ(from(3, {}), absl::StatusCode::kOk);
  const auto kLoss = absl::StatusCode::kDataLoss;
  EXPECT_EQ(from(4, {{3, 4}}), kLoss) << "reaches below the watermark";
  EXPECT_EQ(from(0, {{5, 4}}), kLoss);
  EXPECT_EQ(from(0, {{1, 4}, {5, 6}}), kLoss) << "touch";
  EXPECT_EQ(from(0, {{1, 4}, {3, 6}}), kLoss) << "overlap";
  EXPECT_EQ(from(0, {{8, 9}, {3, 6}}), kLoss) << "descend";
  Intervals many;
  for (uint64_t i = 0; i <= kAppliedIntervalsMax; ++i) many.push_back({2 * i, 2 * i});
  EXPECT_EQ(from(0, many), kLoss);
}

// Against a std::set that forgets nothing and a watermark beside it. Ids scatter around a front
// that moves up, with far ones in between.
TEST(AppliedSet, RandomOperationsAgreeWithASetOfIds) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 50; ++seed) {
    SCOPED_TRACE(Replay(seed, "AppliedSet.*"));
    SequenceRng rng(seed);
    constexpr size_t kRoom = 12;
    AppliedSet set(kRoom);
    std::set<uint64_t> model;
    uint64_t watermark = 0;
    const auto contains = [&](uint64_t id) { return id < watermark || model.contains(id); };
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t id = i / 10 + rng.Below(rng.Below(20) == 0 ? 500 : 25);
      ASSERT_EQ(set.Contains(id), contains(id)) << id;
      if (rng.Below(30) == 0) {
        const uint64_t raised = i / 10 + rng.Below(10);
        set.RaiseWatermark(raised);
        watermark = std::max(watermark, raised);
        continue;
      }
      const bool joins = contains(id) || contains(id + 1) || (id > watermark && contains(id - 1));
      const bool full = set.size() == kRoom;
      const absl::StatusOr<bool> inserted = set.Insert(id);
      if (!inserted.ok()) {
        ASSERT_TRUE(full && !joins) << id;
        continue;
      }
      ASSERT_EQ(*inserted, !contains(id)) << id;
      if (*inserted) model.insert(id);
      size_t runs = 0;
      for (auto each = model.lower_bound(watermark); each != model.end(); ++each) {
        if (*each == watermark || !model.contains(*each - 1)) ++runs;
      }
      ASSERT_EQ(set.size(), runs);
    }
    const absl::StatusOr<AppliedSet> again = AppliedSet::FromIntervals(watermark, Held(set));
    ASSERT_TRUE(again.ok()) << again.status();
    for (uint64_t id = 0; id < 800; ++id) ASSERT_EQ(again->Contains(id), contains(id)) << id;
  }
}

}  // namespace
}  // namespace cohort
