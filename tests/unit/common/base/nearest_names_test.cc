#include "common/base/nearest_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

TEST(EditDistance, CountsInsertDeleteSubstituteAndSwap) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("epochs", "epohcs"), 1);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2);
  EXPECT_EQ(EditDistance("rate", "rate"), 0);
}

TEST(EditDistance, CutsVeryLongNames) {
  EXPECT_EQ(EditDistance(std::string(1000000, 'a'), "a"), 63);
}

TEST(NearestNames, NearestFirstAndEqualsInTheirOwnOrder) {
  EXPECT_THAT(NearestNames("dense/bias", {"dense/kernel", "dense_1/bias", "step", "dense/bia"}, 2),
              testing::ElementsAre("dense/bia", "dense_1/bias"));
  EXPECT_THAT(NearestNames("x", {"b", "a"}, 3), testing::ElementsAre("b", "a"));
  EXPECT_THAT(NearestNames("a", {}, 3), testing::IsEmpty());
}

TEST(NearestName, FindsTypingErrors) {
  const std::vector<std::string> known = {"epochs", "batch_size", "loss", "optimizer"};
  EXPECT_EQ(NearestName("epoch", known), "epochs");
  EXPECT_EQ(NearestName("optimiser", known), "optimizer");
  EXPECT_EQ(NearestName("batchsize", known), "batch_size");
  EXPECT_EQ(NearestName("lsos", known), "loss");
  EXPECT_EQ(NearestName("LOSS", known), "loss");
}

TEST(NearestName, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestName("colour", {"epochs", "loss"}), "");
  EXPECT_EQ(NearestName("", {"epochs"}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), {"epochs"}), "");
}

TEST(NearestName, TheFirstOfEqualsWins) { EXPECT_EQ(NearestName("ab", {"ax", "ay"}), "ax"); }

}  // namespace
}  // namespace cohort
