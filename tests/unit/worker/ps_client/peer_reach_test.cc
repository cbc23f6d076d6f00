// Whom a worker reaches, in simulated time: probes, what they tell whom, and when.

#include "worker/ps_client/peer_reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/task/task_service.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr absl::Duration kMs = absl::Milliseconds(1);

class PeerReachTest : public testing::Test {
 protected:
  PeerReachTest() {
    TaskService::Options options;
    options.task = {Role::kPs, 3};
    options.incarnation = 77;
    service_ = std::make_unique<TaskService>(World{sim_, sim_, files_, *there_}, options);
    server_ = *there_->Listen("ps:3", {service_->service()});
    task_.set_role("ps");
    task_.set_index(3);
    task_.set_incarnation(77);
    reach_->SetLease(kLease);
    reach_->SetReport([this](const std::vector<proto::TaskRef>& peers) {
      reports_.emplace_back();
      for (const proto::TaskRef& peer : peers) {
        reports_.back() += peer.ShortDebugString();
      }
    });
  }

  PeerReach::Need Watch() {
    return reach_->Watch(task_, "ps:3", [this](PeerReach::Change change) {
      changes_.emplace_back(change, sim_.Now() - begin_);
    });
  }
  std::vector<PeerReach::Change> Changes() const {
    std::vector<PeerReach::Change> changes;
    for (const auto& [change, when] : changes_) changes.push_back(change);
    return changes;
  }

  SimWorld sim_{1};
  const absl::Time begin_ = sim_.Now();
  MemoryFileSystem files_;
  SimNetwork network_{sim_};
  const std::unique_ptr<Transport> here_ = network_.TransportOf("worker:0");
  const std::unique_ptr<Transport> there_ = network_.TransportOf("ps:3");
  std::unique_ptr<TaskService> service_;
  std::unique_ptr<Server> server_;
  const std::shared_ptr<PeerReach> reach_ =
      std::make_shared<PeerReach>(World{sim_, sim_, files_, *here_});
  proto::TaskRef task_;
  std::vector<std::pair<PeerReach::Change, absl::Duration>> changes_;
  std::vector<std::string> reports_;
};

TEST_F(PeerReachTest, APeerThatAnswersProbesIsReachedHoweverLongItsCallsTake) {
  const PeerReach::Need need = Watch();
  sim_.RunFor(absl::Minutes(5));
  EXPECT_THAT(changes_, IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(PeerReachTest, OneWhichIsNotHeardIsReportedAndGivenUpAndReachedAgain) {
  const PeerReach::Need need = Watch();
  sim_.RunFor(absl::Seconds(20));
  network_.Cut("worker:0", "ps:3");
  const absl::Duration cut = sim_.Now() - begin_;
  sim_.RunFor(kLease + kMs);
  ASSERT_THAT(Changes(), ElementsAre(PeerReach::Change::kUnreached, PeerReach::Change::kGivenUp));
  EXPECT_LE(changes_[0].second - cut, kLease / 2);
  EXPECT_LE(changes_[1].second - cut, kLease);
  EXPECT_TRUE(reach_->IsGivenUp(task_));
  EXPECT_THAT(reports_, ElementsAre("role: \"ps\" index: 3"));
  sim_.RunFor(absl::Minutes(2));
  EXPECT_EQ(changes_.size(), 2u);
  network_.HealAll();
  const absl::Duration healed = sim_.Now() - begin_;
  sim_.RunFor(kLease);
  ASSERT_EQ(changes_.size(), 3u);
  EXPECT_EQ(changes_[2].first, PeerReach::Change::kReachedAgain);
  EXPECT_LE(changes_[2].second - healed, kLease / 4);
  EXPECT_FALSE(reach_->IsGivenUp(task_));
  EXPECT_THAT(reports_, ElementsAre("role: \"ps\" index: 3", ""));
}

// In one direction only: a word that is not answered is not heard.
TEST_F(PeerReachTest, AnswersThatDoNotComeBackCountAsSilence) {
  const PeerReach::Need need = Watch();
  network_.CutOneWay("ps:3", "worker:0");
  sim_.RunFor(kLease + kMs);
  EXPECT_THAT(Changes(), ElementsAre(PeerReach::Change::kUnreached, PeerReach::Change::kGivenUp));
}

TEST_F(PeerReachTest, OneThatNobodyNeedsIsProbedUntilItIsReached) {
  PeerReach::Need need = Watch();
  network_.Cut("worker:0", "ps:3");
  sim_.RunFor(kLease * 2);
  need.reset();
  sim_.RunFor(kLease * 2);
  network_.HealAll();
  sim_.RunFor(kLease);
  EXPECT_THAT(reports_, ElementsAre("role: \"ps\" index: 3", ""));
  const uint64_t events = sim_.events_run();
  sim_.RunFor(absl::Hours(1));
  EXPECT_LE(sim_.events_run() - events, 4u) << "nobody is probed any more";
}

TEST_F(PeerReachTest, AnAnsweredCallIsAWord) {
  const PeerReach::Need need = Watch();
  network_.Cut("worker:0", "ps:3");
  for (int i = 0; i < 20; ++i) {
    sim_.RunFor(kLease / 4);
    reach_->OnHeard(task_);
  }
  EXPECT_THAT(changes_, IsEmpty());
}

// Another process under another address is another peer.
TEST_F(PeerReachTest, ANewAddressIsReachedForAllThatIsKnown) {
  const PeerReach::Need need = Watch();
  network_.Cut("worker:0", "ps:3");
  sim_.RunFor(kLease * 2);
  const std::unique_ptr<Transport> elsewhere = network_.TransportOf("ps:moved");
  const std::unique_ptr<Server> server = *elsewhere->Listen("ps:moved", {service_->service()});
  const PeerReach::Need moved = reach_->Watch(task_, "ps:moved", nullptr);
  EXPECT_FALSE(reach_->IsGivenUp(task_));
  sim_.RunFor(kLease * 2);
  EXPECT_THAT(reports_, ElementsAre("role: \"ps\" index: 3", ""));
}

// The transport may be gone then, while the clock's thread still runs checks.
TEST_F(PeerReachTest, NothingIsLookedAtAfterItsStop) {
  const PeerReach::Need need = Watch();
  network_.Cut("worker:0", "ps:3");
  reach_->Stop();
  sim_.RunFor(kLease * 3);
  EXPECT_THAT(changes_, IsEmpty());
}

}  // namespace
}  // namespace cohort
