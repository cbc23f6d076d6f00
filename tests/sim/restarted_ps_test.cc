// A parameter server that is killed and started again before anybody has noticed.

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

// The answers of a ps to Attach take so long that other calls overtake them.
class SlowAttach final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (absl::EndsWith(message.method, "/HoldShard")) ++holds;
  }
  SimFate OnResponse(const SimMessage& message) override {
    SimFate fate;
    const bool attach = absl::EndsWith(message.method, "/Attach");
    if (attach && message.to == "ps:0") fate.delay = absl::Milliseconds(400);
    return fate;
  }

  int holds = 0;
};

// It is attached, so it answers, and has nothing: that is no checkpoint of the job.
TEST(RestartedPs, IsNotSavedBeforeItsVariablesAreBack) {
  SimCluster cluster(7, 1, 1);
  ClusterCoordinator::Options options;
  options.lease = absl::Seconds(1);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Hours(1);
  auto connected = cluster.Connect(std::move(options));
  ASSERT_TRUE(connected.ok()) << connected.status();
  ClusterCoordinator& coordinator = **connected;
  const auto counter = MakeCounter(coordinator);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator.ResumeState().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  ASSERT_TRUE(coordinator.Join().ok());
  ASSERT_TRUE(coordinator.MakeDurable().ok());
  ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
  ASSERT_TRUE(coordinator.Join().ok());

  SlowAttach slow;
  cluster.network().SetWatcher(&slow);
  cluster.tasks().Kill({Role::kPs, 0});
  cluster.tasks().Start({Role::kPs, 0});
  cluster.sim().RunFor(absl::Milliseconds(150));  // an Attach is there, its answer on its way
  cluster.sim().CallAt(cluster.sim().Now() + absl::Milliseconds(300),
                       [&] { cluster.network().SetWatcher(nullptr); });
  const absl::Status durable = coordinator.MakeDurable();
  EXPECT_TRUE(durable.ok()) << durable;
  EXPECT_GE(slow.holds, 1) << "before the loss was known";

  // What was saved is what was done.
  cluster.tasks().Kill({Role::kPs, 0});
  cluster.tasks().Start({Role::kPs, 0});
  const auto value = coordinator.Read(counter->variable);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->data<float>()[0], 4.0f);
}

}  // namespace
}  // namespace cohort
