// The simulator of whole jobs: production code, faults drawn from the seed, checkers that watch
// from outside. Replay a seed that fails with build/<preset>/bin/run_seeds --from SEED --count 1.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/seed_run.h"

namespace cohort {
namespace {

constexpr uint64_t kSeeds = 320;

std::string FirstLineOf(uint64_t seed) {
  const std::string command =
      absl::StrCat(COHORT_BIN_DIR, "/run_seeds --from ", seed, " --count 1 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 1024> line{};
  return fgets(line.data(), line.size(), pipe.get()) == nullptr ? "" : line.data();
}

TEST(Seeds, NothingIsViolated) {
  FaultTable table;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const SeedResult result = RunSeed(seed, {});
    table.Add(result.table);
    ASSERT_TRUE(result.ok()) << "seed " << seed << ", " << result.plan << "\n"
                             << absl::StrJoin(result.violations, "\n")
                             << "\nreplay: build/<preset>/bin/run_seeds --from " << seed
                             << " --count 1";
  }
  // The seeds are of use only while they strike.
  for (int i = 0; i < kFaults; ++i) {
    uint64_t strikes = 0;
    for (int j = 0; j < kPhases; ++j) {
      strikes += table.Get(static_cast<Fault>(i), static_cast<Phase>(j));
    }
    EXPECT_GT(strikes, 0u) << NameOf(static_cast<Fault>(i));
  }
}

TEST(Seeds, OneSeedIsOneRunAlsoInAnotherProcess) {
  for (const uint64_t seed : {3, 4, 5}) {
    const std::string once = FirstLineOf(seed);
    ASSERT_FALSE(once.empty());
    EXPECT_EQ(once, FirstLineOf(seed));
    const std::string hash =
        absl::StrCat(absl::Hex(RunSeed(seed, {}).trace_hash, absl::kZeroPad16));
    EXPECT_NE(once.find(hash), std::string::npos) << once << " has not " << hash;
  }
  EXPECT_NE(FirstLineOf(3), FirstLineOf(4));
}

}  // namespace
}  // namespace cohort
