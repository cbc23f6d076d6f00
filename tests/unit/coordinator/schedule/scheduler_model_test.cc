#include <gtest/gtest.h>

#include "tests/support/test_seed.h"
#include "tests/unit/coordinator/schedule/model_runner.h"

namespace cohort {
namespace {

constexpr uint64_t kSeeds = 1000;
constexpr int kSteps = 300;

TEST(SchedulerModel, RandomCallsLossesAdditionsAndRemovalsAgreeWithASequentialModel) {
  const uint64_t first = TestSeed(1);
  const uint64_t last = TestSeed(kSeeds);  // that one alone, or all
  for (uint64_t seed = first; seed <= last; ++seed) {
    const std::string different = ModelRunner(seed).Run(kSteps);
    ASSERT_TRUE(different.empty()) << different << "\n"
                                   << Replay("schedule_test", seed, "SchedulerModel.*");
  }
}

}  // namespace
}  // namespace cohort
