#include "tests/support/world/sim_world.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/strand.h"

namespace cohort {
namespace {

TEST(SimWorld, TimersRunInTheOrderOfTimeAndTimeJumps) {
  SimWorld world(1);
  const absl::Time start = world.Now();
  std::vector<int> ran;
  world.CallAt(start + absl::Hours(2), [&] { ran.push_back(2); });
  world.CallAt(start + absl::Hours(1), [&] { ran.push_back(1); });
  EXPECT_TRUE(world.Step());
  EXPECT_EQ(world.Now(), start + absl::Hours(1));
  EXPECT_TRUE(world.Step());
  EXPECT_FALSE(world.Step());
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(SimWorld, ATimerInThePastRunsNow) {
  SimWorld world(1);
  const absl::Time start = world.Now();
  world.CallAt(absl::InfinitePast(), [] {});
  EXPECT_TRUE(world.Step());
  EXPECT_EQ(world.Now(), start);
}

TEST(SimWorld, CancelledTimersDoNotRun) {
  SimWorld world(1);
  bool ran = false;
  const TimerId timer = world.CallAt(world.Now(), [&] { ran = true; });
  EXPECT_TRUE(world.Cancel(timer));
  EXPECT_FALSE(world.Cancel(timer));
  EXPECT_FALSE(world.Cancel(TimerId{}));
  EXPECT_FALSE(world.Step());
  EXPECT_FALSE(ran);
}

TEST(SimWorld, ATimerThatRanCannotBeCancelled) {
  SimWorld world(1);
  const TimerId timer = world.CallAt(world.Now(), [] {});
  world.Step();
  EXPECT_FALSE(world.Cancel(timer));
}

std::string OrderOf(uint64_t seed) {
  SimWorld world(seed);
  std::string order;
  for (char c = 'a'; c < 'i'; ++c) world.Run([&order, c] { order.push_back(c); });
  while (world.Step()) {
  }
  return order;
}

TEST(SimWorld, TheSeedDecidesTheOrderOfTheSameInstant) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(OrderOf(seed), OrderOf(seed));
    orders.insert(OrderOf(seed));
  }
  EXPECT_GT(orders.size(), 15u);
}

TEST(SimWorld, AStrandKeepsItsOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimWorld world(seed);
    Strand strand(world);
    std::string order;
    for (int i = 0; i < 200; ++i) {
      strand.Post([&order, i] { absl::StrAppend(&order, i, " "); });
    }
    std::string expected;
    for (int i = 0; i < 200; ++i) absl::StrAppend(&expected, i, " ");
    world.RunFor(absl::ZeroDuration());
    EXPECT_EQ(order, expected);
  }
}

TEST(SimWorld, RunUntilStopsAtTheConditionAndAtTheLimit) {
  SimWorld world(1);
  const absl::Time start = world.Now();
  int ran = 0;
  for (int i = 1; i <= 10; ++i) world.CallAt(start + absl::Seconds(i), [&] { ++ran; });
  EXPECT_TRUE(world.RunUntil([&] { return ran == 3; }, absl::Hours(1)));
  EXPECT_EQ(world.Now(), start + absl::Seconds(3));
  EXPECT_FALSE(world.RunUntil([&] { return ran == 10; }, absl::Milliseconds(2500)));
  EXPECT_EQ(ran, 5);
  EXPECT_EQ(world.Now(), start + absl::Milliseconds(5500));
  world.RunFor(absl::Hours(1));
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(world.Now(), start + absl::Milliseconds(5500) + absl::Hours(1));
}

uint64_t HashOf(uint64_t seed, absl::string_view event) {
  SimWorld world(seed);
  world.Run([&] { world.Trace(event); });
  world.Run([] {});
  world.RunFor(absl::Seconds(1));
  return world.trace_hash();
}

TEST(SimWorld, TheTraceHashTellsRunsApart) {
  EXPECT_EQ(HashOf(1, "a"), HashOf(1, "a"));
  EXPECT_NE(HashOf(1, "a"), HashOf(1, "b"));
  EXPECT_NE(HashOf(1, "a"), HashOf(2, "a"));
}

TEST(SimWorld, QueuedTasksAreDroppedWithIt) {
  auto owned = std::make_shared<int>(1);
  {
    SimWorld world(1);
    world.Run([owned] { ADD_FAILURE(); });
    world.CallAt(world.Now() + absl::Hours(1), [owned] { ADD_FAILURE(); });
  }
  EXPECT_EQ(owned.use_count(), 1);
}

// A component on a strand whose tasks own it.
TEST(SimWorld, WhatAStrandHadQueuedIsDroppedWithItAlsoWhereItOwnsTheStrand) {
  std::weak_ptr<Strand> left;
  int dropped = 0;
  {
    SimWorld world(1);
    auto strand = std::make_shared<Strand>(world);
    left = strand;
    for (int i = 0; i < 3; ++i) {
      strand->Post([strand, count = std::shared_ptr<int>(&dropped, [](int* n) { ++*n; })] {});
    }
    const auto last = std::shared_ptr<int>(&dropped, [strand](int*) { strand->Post([strand] {}); });
    strand->Post([last] {});  // its end posts another
  }
  EXPECT_EQ(dropped, 3);
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace cohort
