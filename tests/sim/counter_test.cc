#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/sim/counter_job.h"

namespace cohort {
namespace {

std::string TraceOfProcess(uint64_t seed) {
  const std::string command = absl::StrCat(COHORT_BIN_DIR, "/sim_trace ", seed, " 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> line{};
  return fgets(line.data(), line.size(), pipe.get()) == nullptr ? "" : line.data();
}

TEST(CounterSim, CountsEveryIncrementOnce) {
  SimCluster cluster(1, 2, 3);
  CounterJob job;
  const auto value = RunCounterJob(cluster, job);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, 100.0f);
}

TEST(CounterSim, TheSameSeedIsTheSameTraceInAnotherProcess) {
  const std::string once = TraceOfProcess(7);
  ASSERT_FALSE(once.empty());
  EXPECT_EQ(once, TraceOfProcess(7));
  EXPECT_NE(once, TraceOfProcess(8));
}

// Workers die and messages are lost; every increment still counts once. Replay one seed with
// build/<preset>/bin/sim_trace SEED, or with this test's --gtest_filter and the seed it prints.
TEST(CounterSim, CountsEveryIncrementOnceUnderFaults) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimCluster cluster(seed, 2, 3);
    CounterJob job;
    job.increments = 60;
    job.kills = 4;
    job.faults.lose_request = 0.01;
    job.faults.lose_response = 0.01;
    job.faults.duplicate_request = 0.05;
    const auto value = RunCounterJob(cluster, job);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, 60.0f);
  }
}

// A message of which a bit has changed is noticed, does nothing, and is sent again.
TEST(CounterSim, CountsEveryIncrementOnceThoughBitsChangeOnTheWay) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimCluster cluster(seed, 2, 3);
    CounterJob job;
    job.increments = 60;
    job.faults.flip_bit = 0.02;
    const auto value = RunCounterJob(cluster, job);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, 60.0f);
  }
}

}  // namespace
}  // namespace cohort
