// Nothing runs any more once an error was raised (CC-06), also on a worker that the coordinator has
// lost sight of and that still reaches the parameter servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

TEST(Zombie, PushesNothingAfterTheErrorWasRaised) {
  SimCluster cluster(24, /*ps=*/1, /*workers=*/1);
  auto connected = cluster.Connect();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ClusterCoordinator& coordinator = **connected;
  const auto counter = MakeCounter(coordinator);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  ASSERT_TRUE(coordinator.Join().ok());

  // The worker gets the closure and cannot push it yet; then the coordinator loses the worker.
  cluster.network().Cut("worker:0", "ps:0");
  ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  cluster.sim().RunFor(absl::Milliseconds(100));
  cluster.network().Cut("worker:0", "chief:0");
  cluster.sim().RunFor(absl::Seconds(9));  // longer than the lease, shorter than the worker tries
  coordinator.Abort(absl::InternalError("boom"));
  EXPECT_EQ(coordinator.Join().message(), "boom");

  cluster.network().Heal("worker:0", "ps:0");
  cluster.sim().RunFor(absl::Minutes(2));
  const auto value = coordinator.Read(counter->variable);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->data<float>(), 1.0f);
  const auto stats = coordinator.ps().Stats();
  ASSERT_TRUE(stats.ok());
  EXPECT_GT(stats->refused_pushes(), 0u) << "the worker did try: this test can fail";
}

}  // namespace
}  // namespace cohort
