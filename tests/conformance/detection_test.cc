// How soon the loss of a task is known (FT-07), to the millisecond of simulated time: a killed
// process within a second, one that is cut off or stands still when nothing came from it for a
// lease, and never one that is only slow.

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "coordinator/cluster/cluster.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {
namespace {

constexpr absl::Duration kLease = absl::Seconds(5);
constexpr TaskId kPs = {Role::kPs, 0}, kWorker = {Role::kWorker, 0};

class Detection : public testing::TestWithParam<TaskId> {
 protected:
  void SetUp() override {
    Cluster::Options options;
    options.spec = tasks.tasks().spec();
    options.self.incarnation = 77;
    options.self.lease = kLease;
    options.on_worker_ready = [](int, const TaskLink&) {};
    options.on_worker_lost = [this](int, const absl::Status&) { Lost(kWorker); };
    options.on_ps_lost = [this](const absl::Status&) { Lost(kPs); };
    cluster = Cluster::Create(tasks.WorldOf("chief:0"), std::move(options));
    bool ready = false;
    cluster->Claim(0, [](const absl::StatusOr<uint64_t>&) {});
    sim.RunUntil([&] { return cluster->epoch() > 0; }, absl::Seconds(10));
    cluster->WhenReady(1, [&](const absl::Status&) { ready = true; });
    ASSERT_TRUE(sim.RunUntil([&] { return ready; }, absl::Seconds(10)));
    // Not at the very moment of a heartbeat.
    sim.RunFor(absl::Milliseconds(static_cast<int64_t>(1000 + sim.rng().Below(3000))));
    ASSERT_TRUE(lost.empty());
  }
  void TearDown() override { cluster->Stop(); }

  void Lost(TaskId task) {
    lost[task] = sim.Now();
    ++losses;
  }
  std::string host() const { return GetParam().ToString(); }
  void CutOff() {
    tasks.network().Cut(host(), "chief:0");
    since = sim.Now();
  }
  void Heal() { tasks.network().Heal(host(), "chief:0"); }

  SimCluster tasks{31, /*ps=*/1, /*workers=*/1};
  SimWorld& sim = tasks.sim();
  std::shared_ptr<Cluster> cluster;  // shared with its connections
  absl::Time since;
  std::map<TaskId, absl::Time> lost;
  int losses = 0;
};

TEST_P(Detection, AKilledProcessIsLostWithinASecond) {
  since = sim.Now();
  tasks.tasks().Kill(GetParam());
  ASSERT_TRUE(sim.RunUntil([&] { return lost.count(GetParam()) > 0; }, absl::Minutes(1)));
  EXPECT_LE(lost[GetParam()] - since, absl::Seconds(1));
}

TEST_P(Detection, ATaskThatIsCutOffIsLostWithinTheLease) {
  CutOff();
  ASSERT_TRUE(sim.RunUntil([&] { return lost.count(GetParam()) > 0; }, absl::Minutes(1)));
  EXPECT_LE(lost[GetParam()] - since, kLease);
  EXPECT_GE(lost[GetParam()] - since, 0.75 * kLease) << "the last heartbeat was a fifth before";
}

// It is still there at the end of its lease, whenever it went silent between two heartbeats.
TEST_P(Detection, ATaskThatIsSilentForLessThanTheLeaseIsNeverLost) {
  for (int i = 0; i < 50; ++i) {
    sim.RunFor(absl::Milliseconds(static_cast<int64_t>(2000 + sim.rng().Below(2000))));
    CutOff();
    // The lease counts from the last answer, at most a fifth of it before the cut, and an attempt
    // to reach the task is made in the last tenth.
    sim.RunFor(0.65 * kLease);
    Heal();
    ASSERT_TRUE(sim.RunUntil([&] { return cluster->serving().size() == 2; }, kLease));
  }
  EXPECT_TRUE(lost.empty());
}

TEST_P(Detection, ATaskThatComesBackAsAnotherProcessIsLostOnce) {
  tasks.tasks().Kill(GetParam());
  tasks.tasks().Start(GetParam());
  sim.RunFor(kLease);
  EXPECT_EQ(losses, 1);
}

// Until it has ended it answers: were it attached again it would get work that it refuses.
TEST_P(Detection, ATaskThatDrainsIsLostOnceAndServesAgainAsAnotherProcess) {
  since = sim.Now();
  tasks.tasks().StartLeaving(GetParam(), absl::ZeroDuration());
  ASSERT_TRUE(sim.RunUntil([&] { return losses > 0; }, absl::Minutes(1)));
  EXPECT_LE(lost[GetParam()] - since, absl::Seconds(1));
  sim.RunFor(3 * kLease);
  EXPECT_EQ(losses, 1);
  EXPECT_EQ(cluster->serving().size(), 1u);
  tasks.tasks().Kill(GetParam());
  tasks.tasks().Start(GetParam());
  EXPECT_TRUE(sim.RunUntil([&] { return cluster->serving().size() == 2; }, absl::Seconds(2)));
  EXPECT_EQ(losses, 1);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Detection, testing::Values(kPs, kWorker),
                         [](const auto& task) { return std::string(RoleName(task.param.role)); });

}  // namespace
}  // namespace cohort
