// Nothing runs any more once an error was raised (CC-06), also on a worker that the coordinator has
// lost sight of and that still reaches the parameter servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

class LatePushes final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    if (absl::EndsWith(message.method, "/Push")) fate.delay = absl::Seconds(15);
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }
};

TEST(Zombie, PushesNothingAfterTheErrorWasRaised) {
  SimCluster cluster(24, /*ps=*/1, /*workers=*/1);
  auto connected = cluster.Connect();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ClusterCoordinator& coordinator = **connected;
  const auto counter = MakeCounter(coordinator);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  ASSERT_TRUE(coordinator.Join().ok());

  // What the worker pushes is long under way; meanwhile the coordinator loses the worker.
  LatePushes late;
  cluster.network().SetWatcher(&late);
  ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  cluster.sim().RunFor(absl::Milliseconds(100));
  cluster.network().Cut("worker:0", "chief:0");
  cluster.sim().RunFor(absl::Seconds(9));  // longer than the lease
  coordinator.Abort(absl::InternalError("boom"));
  EXPECT_EQ(coordinator.Join().message(), "boom");
  cluster.sim().RunFor(absl::Minutes(2));
  cluster.network().SetWatcher(nullptr);
  const auto value = coordinator.Read(counter->variable);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->data<float>(), 1.0f);
  const auto stats = coordinator.parts().ps->Stats();
  ASSERT_TRUE(stats.ok());
  EXPECT_GT(stats->refused_pushes(), 0u) << "the worker did push: this test can fail";
}

}  // namespace
}  // namespace cohort
