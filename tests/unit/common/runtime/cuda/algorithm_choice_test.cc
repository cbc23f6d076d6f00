#include "common/runtime/cuda/backend/algorithm_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cohort {
namespace {

using testing::ElementsAre;

TEST(DnnAlgorithms, TriesWhatIsPossibleAndGivesTheSameBitsFastestFirst) {
  const std::vector<OfferedAlgorithm> offered = {
      {3, true, true}, {4, true, false}, {5, false, true}, {6, true, true}};
  EXPECT_THAT(AlgorithmsToTry(offered, 1), ElementsAre(3, 6, 1));
}

TEST(DnnAlgorithms, TheSureOneKeepsItsPlace) {
  EXPECT_THAT(AlgorithmsToTry({{3, true, true}, {1, true, true}, {6, true, true}}, 1),
              ElementsAre(3, 1, 6));
}

TEST(DnnAlgorithms, TheSureOneIsTriedWhateverTheLibrarySays) {
  EXPECT_THAT(AlgorithmsToTry({}, 1), ElementsAre(1));
  EXPECT_THAT(AlgorithmsToTry({{1, false, true}, {2, true, false}}, 1), ElementsAre(1));
  EXPECT_THAT(AlgorithmsToTry({{1, true, false}}, 1), ElementsAre(1));
}

TEST(DnnAlgorithms, TheFirstThatRunsIsTheLastThatIsTried) {
  std::vector<int32_t> tried;
  const int32_t code = FirstThatRuns({3, 6, 1}, [&](int32_t algorithm) {
    tried.push_back(algorithm);
    return algorithm == 6 ? kCudaDone : 100 + algorithm;
  });
  EXPECT_EQ(code, kCudaDone);
  EXPECT_THAT(tried, ElementsAre(3, 6));
}

TEST(DnnAlgorithms, WhereNoneRunsTheLastOnesCodeIsTold) {
  EXPECT_EQ(FirstThatRuns({3, 1}, [](int32_t algorithm) { return 100 + algorithm; }), 101);
}

}  // namespace
}  // namespace cohort
