#include "coordinator/homes/home_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;

TEST(CallRounds, FillEachHomesCallsInOrder) {
  const std::vector<SliceLoad> slices = {{0, 40}, {1, 90}, {0, 60}, {0, 1}, {1, 20}, {0, 99}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

TEST(CallRounds, AnOversizedSliceGoesAlone) {
  const std::vector<SliceLoad> slices = {{0, 10}, {0, 500}, {0, 10}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(CallRounds, SlicesWithoutBytesTravelWithTheOthers) {
  const std::vector<SliceLoad> slices = {{0, 0}, {0, 500}, {0, 0}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(CallRounds, NothingIsOneEmptyRound) {
  EXPECT_THAT(CallRounds({}, 100), ElementsAre(ElementsAre()));
}

}  // namespace
}  // namespace cohort
