#include "coordinator/schedule/fences.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace cohort {
namespace {

TEST(FencesTest, OneThatIsBegunEnds) {
  Fences fences;
  EXPECT_FALSE(fences.IsNeeded());
  fences.Need();
  EXPECT_TRUE(fences.IsNeeded());
  const uint64_t number = fences.Begin();
  EXPECT_TRUE(fences.IsUnderWay());
  EXPECT_TRUE(fences.End(number));
  EXPECT_FALSE(fences.IsNeeded());
}

TEST(FencesTest, OneThatWasBegunBeforeANewNeedDoesNotEndIt) {
  Fences fences;
  fences.Need();
  const uint64_t first = fences.Begin();
  fences.Need();  // an attempt that the first fence does not know
  EXPECT_FALSE(fences.End(first));
  EXPECT_TRUE(fences.IsNeeded());
  EXPECT_FALSE(fences.IsUnderWay());
  const uint64_t second = fences.Begin();
  EXPECT_FALSE(fences.End(first));
  EXPECT_TRUE(fences.End(second));
}

TEST(FencesTest, WhatWasForgottenDoesNotEnd) {
  Fences fences;
  fences.Need();
  const uint64_t number = fences.Begin();
  fences.Forget();
  EXPECT_FALSE(fences.End(number));
  EXPECT_FALSE(fences.IsNeeded());
}

TEST(FencesTest, ASessionIsAskedForOnceUntilItIsConfirmed) {
  Fences fences;
  EXPECT_EQ(fences.Add({1, 2}), (std::set<uint64_t>{1, 2}));
  EXPECT_EQ(fences.Add({2, 3}), (std::set<uint64_t>{3}));
  EXPECT_TRUE(fences.IsFencing(2));
  fences.Confirm({1, 2});
  EXPECT_FALSE(fences.IsFencing(2));
  EXPECT_EQ(fences.sessions(), (std::set<uint64_t>{3}));
  EXPECT_EQ(fences.Add({2}), (std::set<uint64_t>{2}));
}

}  // namespace
}  // namespace cohort
