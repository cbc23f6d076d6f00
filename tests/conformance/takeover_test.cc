// A coordinator is taken over by another one of its job (FT-05): an epoch has one holder, what the
// old one sends changes nothing, and the job goes on where its last checkpoint left off.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/epoch_claim.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter_life.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class Takeover : public testing::Test {
 protected:
  std::unique_ptr<ClusterCoordinator> Connect(const std::string& host, uint64_t incarnation) {
    ClusterCoordinator::Options options;
    options.cluster = cluster.tasks().spec();
    options.settings = 1;
    options.incarnation = incarnation;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(50);
    auto connected =
        ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(), std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    return connected.ok() ? *std::move(connected) : nullptr;
  }

  SimCluster cluster{17, /*ps=*/2, /*workers=*/2};
};

TEST_F(Takeover, TheOldOneEndsNamingTheWinnerAndTheCountIsExact) {
  constexpr uint64_t kIncrements = 3000;
  const auto old = Connect("chief:0", 1);
  CounterLife first(*old, kIncrements);
  ASSERT_TRUE(first.Begin().ok());
  ASSERT_TRUE(first.ScheduleWhatIsLeft().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(old->Join(absl::Milliseconds(300))));
  ASSERT_GT(first.done(), 0u);

  const auto winner = Connect("chief:1", 2);
  CounterLife second(*winner, kIncrements);
  ASSERT_TRUE(second.Begin().ok());
  EXPECT_GT(second.done(), 0u) << "what a checkpoint covered is not run again";
  ASSERT_TRUE(second.ScheduleWhatIsLeft().ok());
  const absl::Status error = old->Join();
  EXPECT_EQ(ClassOf(error), proto::STALE) << error;
  EXPECT_THAT(std::string(error.message()), HasSubstr("coordinator incarnation 2"));
  EXPECT_FALSE(old->Join().ok()) << "it has ended for good";

  ASSERT_TRUE(winner->Join().ok());
  const auto value = second.Finish();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, static_cast<float>(kIncrements));
}

// Cut off from everything while another one takes over, then back with closures in flight.
TEST_F(Takeover, AZombieThatComesBackChangesNothing) {
  constexpr uint64_t kIncrements = 2000;
  const auto zombie = Connect("chief:0", 1);
  CounterLife first(*zombie, kIncrements);
  ASSERT_TRUE(first.Begin().ok());
  ASSERT_TRUE(first.ScheduleWhatIsLeft().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(zombie->Join(absl::Milliseconds(200))));
  const ClusterSpec spec = cluster.tasks().spec();
  for (const auto& [task, address] : spec.tasks()) {
    cluster.network().Cut("chief:0", task.ToString());
  }
  const auto winner = Connect("chief:1", 2);
  CounterLife second(*winner, kIncrements);
  ASSERT_TRUE(second.Begin().ok());
  ASSERT_TRUE(second.ScheduleWhatIsLeft().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(winner->Join(absl::Milliseconds(100))));
  cluster.network().HealAll();
  const absl::Status error = zombie->Join(absl::Minutes(1));
  EXPECT_EQ(ClassOf(error), proto::STALE) << error;
  ASSERT_TRUE(winner->Join().ok());
  const auto value = second.Finish();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, static_cast<float>(kIncrements));
}

// Holds back every Attach until all claims have asked for epochs.
class LateAttach final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    if (absl::EndsWith(message.method, "/Attach")) fate.delay = absl::Milliseconds(50);
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }
};

// Both saw the same epochs and claim the same next one: the first server decides.
TEST_F(Takeover, OfTwoThatClaimOneEpochTheLoserHoldsNothing) {
  LateAttach late;
  cluster.network().SetWatcher(&late);
  std::vector<absl::StatusOr<uint64_t>> results(2, absl::UnknownError("no answer"));
  std::vector<std::shared_ptr<EpochClaim>> claims;
  for (size_t i = 0; i < results.size(); ++i) {
    EpochClaim::Options options;
    options.ps = {{Role::kPs, 0}, {Role::kPs, 1}};
    options.address = [spec = cluster.tasks().spec()](TaskId task) { return *spec.Address(task); };
    options.self.incarnation = i + 1;
    claims.push_back(EpochClaim::Create(
        cluster.WorldOf(absl::StrCat("chief:", i)), std::move(options),
        [&results, i](absl::StatusOr<uint64_t> result) { results[i] = std::move(result); }));
  }
  for (const auto& claim : claims) claim->Start();
  cluster.sim().RunFor(absl::Seconds(5));
  cluster.network().SetWatcher(nullptr);
  EXPECT_NE(results[0].ok(), results[1].ok());
  const size_t winner = results[0].ok() ? 0 : 1;
  EXPECT_EQ(*results[winner], 1u);
  const absl::Status& lost = results[1 - winner].status();
  EXPECT_EQ(ClassOf(lost), proto::STALE) << lost;
  EXPECT_THAT(std::string(lost.message()),
              HasSubstr(absl::StrCat("held by coordinator incarnation ", winner + 1)));
}

// A server that is started again knows whom it granted its epoch.
TEST_F(Takeover, AGrantOutlivesTheServer) {
  const auto claim = [&](const std::string& host, uint64_t incarnation) {
    EpochClaim::Options options;
    options.ps = {{Role::kPs, 0}};
    options.address = [spec = cluster.tasks().spec()](TaskId task) { return *spec.Address(task); };
    options.self.incarnation = incarnation;
    absl::StatusOr<uint64_t> result;
    Event done;
    EpochClaim::Create(cluster.WorldOf(host), std::move(options),
                       [&](absl::StatusOr<uint64_t> epoch) {
                         result = epoch;
                         done.Notify();
                       })
        ->Start();
    EXPECT_TRUE(cluster.waiter().Wait(done, absl::Minutes(1)));
    return result;
  };
  ASSERT_EQ(*claim("chief:0", 1), 1u);
  cluster.tasks().Kill({Role::kPs, 0});
  cluster.tasks().Start({Role::kPs, 0});
  // One that knows of no epoch asks, and goes above it.
  EXPECT_EQ(*claim("chief:1", 2), 2u);
  cluster.tasks().Kill({Role::kPs, 0});
  cluster.tasks().Start({Role::kPs, 0});
  Envelope<proto::AttachRequest> attach;
  attach.header.set_epoch(2);
  attach.header.set_coordinator_incarnation(3);
  World world = cluster.WorldOf("chief:2");
  const auto channel = world.transport.Connect("ps0:2222", Lane::kControl);
  absl::Status late;
  Event done;
  StartCall<proto::AttachResponse>(*channel, "/cohort.proto.TaskService/Attach", std::move(attach),
                                   absl::Seconds(1), [&](const auto& answer) {
                                     late = answer.status();
                                     done.Notify();
                                   });
  ASSERT_TRUE(cluster.waiter().Wait(done, absl::Minutes(1)));
  EXPECT_EQ(ClassOf(late), proto::STALE) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("held by coordinator incarnation 2"));
}

}  // namespace
}  // namespace cohort
