#include "coordinator/schedule/gang_lineup.h"

#include "gtest/gtest.h"

namespace cohort {
namespace {

TEST(GangLineupDeathTest, AGenerationThatHasNotBegunIsNotFenced) {
  GangLineup lineup({0, 1});
  lineup.Send(ClosureId{1}, 1, absl::UnixEpoch());
  lineup.SetFenced(lineup.session());
  EXPECT_TRUE(lineup.IsFenced(lineup.session()));
  EXPECT_DEATH(lineup.SetFenced(lineup.session() + 1), "before it has begun");
}

}  // namespace
}  // namespace cohort
