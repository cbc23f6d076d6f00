// The simulator of whole jobs: production code, faults drawn from the seed, checkers that watch
// from outside. Replay a seed that fails with build/<preset>/bin/run_seeds --from SEED --count 1.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tests/sim/seed_result.h"

namespace cohort {
namespace {

constexpr uint64_t kSeeds = 320;
constexpr uint64_t kGangSeeds = 200;
constexpr uint64_t kPartSeeds = 200;  // of each job

SeedOptions Gangs() {
  SeedOptions options;
  options.job = SeedJob::kGangs;
  return options;
}

// One for each job.
std::string FirstLinesOf(uint64_t seed) {
  const std::string command =
      absl::StrCat(COHORT_BIN_DIR, "/run_seeds --from ", seed, " --count 1 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string lines;
  std::array<char, 1024> line{};
  for (int i = 0; i < 2 && fgets(line.data(), line.size(), pipe.get()) != nullptr; ++i) {
    lines += line.data();
  }
  return lines;
}

void ExpectNothingIsViolated(uint64_t seeds, const SeedOptions& options) {
  FaultTable table;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const SeedResult result = RunSeed(seed, options);
    table.Add(result.table);
    ASSERT_TRUE(result.ok()) << "seed " << seed << ", " << result.plan << "\n"
                             << absl::StrJoin(result.violations, "\n")
                             << "\nreplay: build/<preset>/bin/run_seeds --from " << seed
                             << " --count 1" << (options.parts ? " --parts" : "");
  }
  // The seeds are of use only while they strike.
  constexpr std::array<Fault, 1> kPart = {Fault::kPart};
  for (const Fault fault : options.parts ? absl::MakeConstSpan(kPart) : FaultsOf(options.job)) {
    uint64_t strikes = 0;
    for (const Phase phase : PhasesOf(options.job)) strikes += table.Get(fault, phase);
    EXPECT_GT(strikes, 0u) << NameOf(fault);
  }
}

TEST(Seeds, NothingIsViolated) { ExpectNothingIsViolated(kSeeds, {}); }

TEST(Seeds, NothingIsViolatedWhereWorkersTrainTogether) {
  ExpectNothingIsViolated(kGangSeeds, Gangs());
}

// A job goes on without one of two that do not reach each other, and with both when they do again.
TEST(Seeds, AJobGoesOnWhileOnePairIsCut) {
  for (SeedOptions options : {SeedOptions(), Gangs()}) {
    options.parts = true;
    ExpectNothingIsViolated(kPartSeeds, options);
  }
}

TEST(Seeds, OneSeedIsOneRunAlsoInAnotherProcess) {
  // A disk fails in seed 8: its message must not name a temporary file.
  for (const uint64_t seed : {3, 4, 5, 8}) {
    const std::string once = FirstLinesOf(seed);
    ASSERT_FALSE(once.empty());
    EXPECT_EQ(once, FirstLinesOf(seed));
    for (const SeedOptions& options : {SeedOptions(), Gangs()}) {
      const std::string hash =
          absl::StrCat(absl::Hex(RunSeed(seed, options).trace_hash, absl::kZeroPad16));
      EXPECT_NE(once.find(hash), std::string::npos) << once << " has not " << hash;
    }
  }
  EXPECT_NE(FirstLinesOf(3), FirstLinesOf(4));
}

}  // namespace
}  // namespace cohort
