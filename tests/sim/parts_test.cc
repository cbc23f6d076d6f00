// Pairs that do not reach each other while the coordinator reaches both, in simulated time. The
// seeds (Seeds.AJobGoesOnWhileOnePairIsCut) have every pair; here is what each case looks like.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

constexpr absl::Duration kLease = absl::Seconds(5);
constexpr absl::Duration kCut = absl::Minutes(5);

class PartsSim : public testing::TestWithParam<bool> {
 protected:
  void Connect(bool recovery) {
    ClusterCoordinator::Options options;
    options.lease = kLease;
    if (recovery) options.recovery_directory = "/recovery";
    auto connected = cluster_.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
    const auto counter = MakeCounter(*coordinator_);
    ASSERT_TRUE(counter.ok()) << counter.status();
    counter_.emplace(*counter);
    if (recovery) {
      ASSERT_TRUE(coordinator_->ResumeState().ok());
    }
    Run(10);
  }
  void Schedule(int closures) {
    for (int i = 0; i < closures; ++i) {
      ASSERT_TRUE(coordinator_->Schedule(counter_->increment, {}).ok());
    }
    scheduled_ += closures;
  }
  void Run(int closures) {
    Schedule(closures);
    const absl::Status joined = coordinator_->Join();
    ASSERT_TRUE(joined.ok()) << joined;
  }
  void Cut(const std::string& one, const std::string& other) { cluster_.network().Cut(one, other); }
  bool Reaches(TaskId task) const { return coordinator_->parts().cluster->IsReached(task); }
  uint64_t Recoveries() const { return coordinator_->stats().recoveries; }
  void ExpectExact() {
    const auto value = coordinator_->Read(counter_->variable);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value->span<float>()[0], static_cast<float>(scheduled_));
  }

  SimCluster cluster_{1, 2, 3};
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<Counter> counter_;
  int scheduled_ = 0;
};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutRecovery, PartsSim, testing::Bool());

// All wait, nobody is suspected, nothing is put back, and nothing fails.
TEST_P(PartsSim, AServerThatNoWorkerReachesIsWaitedFor) {
  Connect(GetParam());
  const uint64_t before = Recoveries();
  for (const char* worker : {"worker:0", "worker:1", "worker:2"}) Cut(worker, "ps:0");
  Schedule(200);
  cluster_.sim().RunFor(kCut);
  EXPECT_TRUE(Reaches({Role::kPs, 0}));
  EXPECT_GT(coordinator_->stats().queued, 0u);
  cluster_.network().HealAll();
  const absl::Time healed = cluster_.sim().Now();
  const absl::Status joined = coordinator_->Join();
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_LE(cluster_.sim().Now() - healed, kLease);
  EXPECT_EQ(Recoveries(), before);
  EXPECT_EQ(coordinator_->stats().failed, 0u);
  ExpectExact();
}

// It has lost its values, which no worker could tell: only then the job goes back to a checkpoint,
// once, and the job without one ends as soon as that is known.
TEST_P(PartsSim, AServerThatNoWorkerReachesAndThatIsRestartedMeanwhileHasLostItsValues) {
  Connect(GetParam());
  const uint64_t before = Recoveries();
  for (const char* worker : {"worker:0", "worker:1", "worker:2"}) Cut(worker, "ps:0");
  Schedule(200);
  cluster_.sim().RunFor(absl::Minutes(1));
  EXPECT_EQ(Recoveries(), before) << "it has its values";
  cluster_.tasks().Kill({Role::kPs, 0});
  cluster_.tasks().Start({Role::kPs, 0});
  const absl::Time restarted = cluster_.sim().Now();
  if (!GetParam()) {
    const absl::Status ended = coordinator_->Join();
    EXPECT_EQ(ClassOf(ended), proto::PS_LOST) << ended;
    EXPECT_THAT(std::string(ended.message()), testing::HasSubstr("ps:0"));
    EXPECT_LE(cluster_.sim().Now() - restarted, kLease + absl::Seconds(1));
    return;
  }
  cluster_.sim().RunFor(kCut);
  EXPECT_EQ(Recoveries(), before + 1) << "once, and while no worker reaches it";
  EXPECT_TRUE(Reaches({Role::kPs, 0}));
  cluster_.network().HealAll();
  const absl::Time healed = cluster_.sim().Now();
  const absl::Status joined = coordinator_->Join();
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_LE(cluster_.sim().Now() - healed, kLease);
  EXPECT_EQ(Recoveries(), before + 1);
  EXPECT_EQ(coordinator_->stats().failed, 0u);
  ExpectExact();
}

// What it has goes to the others within a lease, and then it has none.
TEST_P(PartsSim, AWorkerThatDoesNotReachOneServerGetsNothingAndSlowsNobody) {
  Connect(GetParam());
  Cut("worker:1", "ps:0");
  const absl::Time cut = cluster_.sim().Now();
  Run(20);
  EXPECT_LE(cluster_.sim().Now() - cut, kLease + absl::Seconds(1));
  for (int i = 0; i < 20; ++i) {
    const absl::Time begin = cluster_.sim().Now();
    Run(20);
    EXPECT_LE(cluster_.sim().Now() - begin, absl::Seconds(1));
    for (const int worker : {0, 1, 2}) EXPECT_TRUE(Reaches({Role::kWorker, worker}));
    EXPECT_TRUE(Reaches({Role::kPs, 0}));
    cluster_.sim().RunFor(kLease);
  }
  const uint64_t done = coordinator_->parts().scheduler->workers()[1].done;
  cluster_.network().HealAll();
  cluster_.sim().RunFor(kLease);
  Run(30);
  EXPECT_GT(coordinator_->parts().scheduler->workers()[1].done, done) << "it takes part again";
  ExpectExact();
}

}  // namespace
}  // namespace cohort
