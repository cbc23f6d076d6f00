// Parameter servers that have less memory than their variables need, and are killed for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr TaskId kPs{Role::kPs, 0};

// A counter is one float: 4 bytes without slots, and 4 more while it is trained.
class HomeMemorySim : public testing::Test {
 protected:
  void Start(size_t ps_memory_bytes) {
    cluster_.tasks().SetPsMemory(ps_memory_bytes);
    cluster_.tasks().Kill(kPs);
    cluster_.tasks().Start(kPs);
    ClusterCoordinator::Options options;
    options.lease = absl::Seconds(1);
    options.recovery_directory = "/recovery";
    auto connected = cluster_.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
  }

  // As a supervisor does it, after a moment.
  void KillPs() {
    cluster_.tasks().Kill(kPs);
    cluster_.sim().RunFor(absl::Milliseconds(200));
    cluster_.tasks().Start(kPs);
  }

  SimCluster cluster_{7, 1, 1};
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

TEST_F(HomeMemorySim, APlanThatDoesNotFitIsRefusedBeforeTheStart) {
  Start(3);
  const absl::Status refused = MakeCounter(*coordinator_).status();
  EXPECT_EQ(ClassOf(refused), proto::CONFIGURATION);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ps:0 needs 4 bytes of memory"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("may have 3"));
}

TEST_F(HomeMemorySim, AHomeThatNeedsMoreThanItMayHaveIsNotRecoveredForEver) {
  Start(7);
  const auto counter = MakeCounter(*coordinator_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator_->ResumeState().ok());
  // It dies as soon as it has its variables back.
  for (int death = 0; death < 3; ++death) {
    KillPs();
    cluster_.sim().RunFor(absl::Seconds(2));
  }
  const auto scheduled = coordinator_->Schedule(counter->increment, {});
  const absl::Status ended = scheduled.ok() ? coordinator_->Join() : scheduled.status();
  EXPECT_EQ(ClassOf(ended), proto::CONFIGURATION) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("ps:0 was lost 3 times"));
  EXPECT_THAT(std::string(ended.message()), HasSubstr("4 bytes for variables"));
  EXPECT_THAT(std::string(ended.message()), HasSubstr("of 7"));
}

TEST_F(HomeMemorySim, ClosuresThatAreDoneBetweenAreProgress) {
  Start(7);
  const auto counter = MakeCounter(*coordinator_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator_->ResumeState().ok());
  for (int death = 0; death < 6; ++death) {
    ASSERT_TRUE(coordinator_->Schedule(counter->increment, {}).ok());
    const absl::Status joined = coordinator_->Join();
    ASSERT_TRUE(joined.ok()) << joined;
    KillPs();
  }
  EXPECT_EQ(coordinator_->Read(counter->variable)->data<float>()[0], 6.0f);
}

TEST_F(HomeMemorySim, AHomeWithTheMemoryMayBeLostAsOftenAsItLikes) {
  Start(8);
  const auto counter = MakeCounter(*coordinator_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE(coordinator_->ResumeState().ok());
  for (int death = 0; death < 8; ++death) {
    KillPs();
    cluster_.sim().RunFor(absl::Seconds(2));
  }
  ASSERT_TRUE(coordinator_->Schedule(counter->increment, {}).ok());
  const absl::Status joined = coordinator_->Join();
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_EQ(coordinator_->Read(counter->variable)->data<float>()[0], 1.0f);
}

}  // namespace
}  // namespace cohort
