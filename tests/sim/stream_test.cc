// Checkpoints of a cluster whose hosts share no directory, in simulated time.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/sim/counter_job.h"

namespace cohort {
namespace {

// The redo log has no room for all: without checkpoints that hold, such a job never ends.
CounterJob Job(int increments) {
  CounterJob job;
  job.increments = increments;
  job.recovery = true;
  job.redo_max = 32;
  job.chunk_bytes = 7;  // cuts elements
  return job;
}

TEST(StreamSim, AJobGoesOnFromCheckpointsThatNoParameterServerSees) {
  SimCluster cluster(1, 2, 3, Disks::kPrivate);
  CounterJob job = Job(1000);
  job.ps_kills = 2;
  job.coordinator_kills = 1;
  const auto value = RunCounterJob(cluster, job);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, 1000.0f);
}

// Which calls go to the parameter servers.
class CallCounter final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    ++calls[std::string(message.method.substr(message.method.rfind('/') + 1))];
    return {};
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }
  std::map<std::string, int> calls;
};

std::map<std::string, int> CallsOfAJob(Disks disks) {
  SimCluster cluster(1, 2, 3, disks);
  CallCounter counter;
  cluster.network().SetWatcher(&counter);
  CounterJob job = Job(1000);
  job.ps_kills = 2;
  const auto value = RunCounterJob(cluster, job);
  cluster.network().SetWatcher(nullptr);
  EXPECT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value.value_or(0), 1000.0f);
  return counter.calls;
}

TEST(StreamSim, TheProbeChoosesWhoReadsAndWritesTheFiles) {
  auto shared = CallsOfAJob(Disks::kShared);
  EXPECT_GT(shared["WriteShard"], 0);
  EXPECT_EQ(shared["ReadShard"] + shared["StageRestore"] + shared["WriteStaged"], 0);
  auto stream = CallsOfAJob(Disks::kPrivate);
  EXPECT_GT(stream["ReadShard"], stream["HoldShard"]);
  EXPECT_GT(stream["WriteStaged"], stream["StageRestore"]);
  EXPECT_EQ(stream["WriteShard"], 0);
  for (auto* calls : {&shared, &stream}) {
    EXPECT_GT((*calls)["ProbeDirectory"], 0);
    EXPECT_LT((*calls)["ProbeDirectory"], (*calls)["HoldShard"]) << "once per epoch";
  }
}

// Kills fall into saves and restores, whose calls are also lost, repeated and late.
TEST(StreamSim, CountsEveryIncrementOnceWhateverDies) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimCluster cluster(seed, 2, 3, Disks::kPrivate);
    CounterJob job = Job(200);
    job.kills = 2;
    job.ps_kills = 3;
    job.coordinator_kills = 2;
    job.within = absl::Seconds(3);
    job.faults.lose_request = 0.01;
    job.faults.lose_response = 0.01;
    job.faults.duplicate_request = 0.05;
    const auto value = RunCounterJob(cluster, job);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, 200.0f);
  }
}

}  // namespace
}  // namespace cohort
