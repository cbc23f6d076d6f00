#include "coordinator/job/suggestions.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

TEST(Suggestions, EditDistanceCountsInsertDeleteSubstituteAndSwap) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("epochs", "epohcs"), 1);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2);
  EXPECT_EQ(EditDistance("rate", "rate"), 0);
}

TEST(Suggestions, NearestIgnoresCaseAndTakesTheFirstOfEquals) {
  EXPECT_EQ(NearestName("DENSE", {"Dropout", "Dense"}), "Dense");
  EXPECT_EQ(NearestName("x", {"a", "b"}), "a");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(Suggestions, VeryLongNamesAreCutNotTabulated) {
  EXPECT_EQ(EditDistance(std::string(1000000, 'a'), "a"), 63);
}

}  // namespace
}  // namespace cohort
