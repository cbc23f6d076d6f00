#include "common/runtime/run/memory_plan.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

// The largest number of bytes that live at one node: no plan can be smaller.
size_t LowerBound(const std::vector<LiveRange>& ranges) {
  size_t bound = 0;
  for (const LiveRange& at : ranges) {
    size_t bytes = 0;
    for (const LiveRange& range : ranges) {
      if (range.first <= at.first && at.first <= range.last) bytes += (range.bytes + 63) / 64 * 64;
    }
    bound = std::max(bound, bytes);
  }
  return bound;
}

TEST(MemoryPlanTest, ValuesThatDoNotMeetShareBytes) {
  const MemoryPlan plan = PlanMemory({{100, 0, 1}, {100, 2, 3}, {100, 1, 2}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.arena_bytes, 256u);
}

TEST(MemoryPlanTest, EmptyPlanHasNoArena) { EXPECT_EQ(PlanMemory({}).arena_bytes, 0u); }

TEST(MemoryPlanTest, LivingValuesNeverOverlap) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE(seed);
  SequenceRng rng(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveRange> ranges;
    const int count = 1 + static_cast<int>(rng.Below(40));
    for (int i = 0; i < count; ++i) {
      LiveRange range;
      range.bytes = rng.Below(10) == 0 ? 0 : rng.Below(5000);
      range.first = static_cast<int>(rng.Below(30));
      range.last = range.first + static_cast<int>(rng.Below(6));
      ranges.push_back(range);
    }
    const MemoryPlan plan = PlanMemory(ranges);
    for (size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      EXPECT_LE(plan.offsets[i] + ranges[i].bytes, plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        if (ranges[i].first > ranges[j].last || ranges[j].first > ranges[i].last) continue;
        EXPECT_TRUE(plan.offsets[i] + ranges[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + ranges[j].bytes <= plan.offsets[i])
            << "ranges " << i << " and " << j << " of round " << round;
      }
    }
    EXPECT_LE(plan.arena_bytes, 2 * LowerBound(ranges)) << "round " << round;
  }
}

}  // namespace
}  // namespace cohort
