#include "common/base/nearest_name.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(NearestName, FindsTypingErrors) {
  const std::vector<std::string> known = {"batch_size", "epochs", "optimizer", "loss"};
  EXPECT_EQ(NearestName("epoch", known), "epochs");
  EXPECT_EQ(NearestName("optimiser", known), "optimizer");
  EXPECT_EQ(NearestName("batchsize", known), "batch_size");
  EXPECT_EQ(NearestName("lsos", known), "loss");
}

TEST(NearestName, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestName("colour", {"epochs", "loss"}), "");
  EXPECT_EQ(NearestName("", {"epochs"}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), {"epochs"}), "");
}

TEST(NearestName, TheFirstOfEqualsWins) { EXPECT_EQ(NearestName("ab", {"ax", "ay"}), "ax"); }

}  // namespace
}  // namespace cohort
