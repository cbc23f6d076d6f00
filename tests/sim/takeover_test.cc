// Two coordinators of one job: the one that was taken over ends, names the winner, and does not
// take the job back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

constexpr uint64_t kFirst = 111;
constexpr uint64_t kSecond = 222;

class Takeover : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(const std::string& host,
                                                              uint64_t incarnation) {
    ClusterCoordinator::Options options;
    options.cluster = cluster.tasks().spec();
    options.settings = 1;
    options.incarnation = incarnation;
    options.lease = absl::Seconds(1);
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(50);
    options.has_application_state = has_application_state;
    return ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(), std::move(options));
  }

  // With the counter, resumed.
  std::unique_ptr<ClusterCoordinator> Start(const std::string& host, uint64_t incarnation) {
    auto connected = Connect(host, incarnation);
    EXPECT_TRUE(connected.ok()) << connected.status();
    auto coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) counter = made->variable;
    const auto resumed = coordinator->ResumeState();
    EXPECT_TRUE(resumed.ok()) << resumed.status();
    if (resumed.ok()) left = *resumed;
    return coordinator;
  }

  void CutOff(const std::string& host) {
    for (const char* other : {"ps:0", "ps:1", "worker:0"}) cluster.network().Cut(host, other);
  }

  absl::Status Increment(ClusterCoordinator& coordinator) {
    ASSIGN_OR_RETURN(const ProgramHandle program,
                     coordinator.Register(IncrementProgram("counter")));
    RETURN_IF_ERROR(coordinator.Schedule(program, {}).status());
    return coordinator.Join();
  }

  static auto NamesTheSecond() {
    return testing::HasSubstr(absl::StrCat("held by coordinator incarnation ", kSecond));
  }

  SimCluster cluster{5, 2, 1};
  std::optional<Variable> counter;              // on ps:0
  std::optional<proto::CoordinatorState> left;  // to the last that started
  bool has_application_state = false;
};

// As a process that is interrupted between its resumption and its first SetApplicationState.
TEST_F(Takeover, ACheckpointBeforeTheProgramSetsItsStateKeepsTheStateThatItResumedFrom) {
  auto first = Start("chief:0", kFirst);
  first->SetApplicationState([](const Cut&) { return "epoch 3"; });
  ASSERT_TRUE(Increment(*first).ok());
  ASSERT_TRUE(first->MakeDurable().ok());
  auto second = Start("chief:1", kSecond);
  ASSERT_TRUE(second->MakeDurable().ok());
  const auto kept = second->LeftState();
  ASSERT_TRUE(kept.ok() && kept->has_value()) << kept.status();
  EXPECT_EQ((*kept)->application(), "epoch 3");
  EXPECT_GT((*kept)->epoch(), left->epoch()) << "a checkpoint of the second";
}

// A state without the program's would be one that no later process could go on from.
TEST_F(Takeover, NoCheckpointIsMadeBeforeTheProgramSetsItsFirstState) {
  has_application_state = true;
  auto first = Start("chief:0", kFirst);
  EXPECT_FALSE(first->CheckpointAndHold(absl::Seconds(1), [](const absl::Status&) {}));
  first->MakeDurableSoon();
  cluster.sim().RunFor(absl::Seconds(1));
  const auto before = first->LeftState();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_FALSE(before->has_value());
  first->SetApplicationState([](const Cut&) { return "epoch 0"; });
  cluster.sim().RunFor(absl::Seconds(1));
  const auto made = first->LeftState();
  ASSERT_TRUE(made.ok() && made->has_value()) << "the one that was asked for: " << made.status();
  EXPECT_EQ((*made)->application(), "epoch 0");
  EXPECT_TRUE(first->CheckpointAndHold(absl::Seconds(1), [](const absl::Status&) {}));
}

TEST_F(Takeover, TheLoserThatWasRecoveringDoesNotTakeTheJobBack) {
  auto first = Start("chief:0", kFirst);
  CutOff("chief:0");
  cluster.sim().RunFor(absl::Seconds(5));  // every ps is lost to it: it claims a new epoch
  auto second = Start("chief:1", kSecond);
  cluster.network().HealAll();
  cluster.sim().RunFor(absl::Seconds(5));
  const absl::Status error = first->Join();
  EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(error.message()), NamesTheSecond());
  const absl::Status goes_on = Increment(*second);
  EXPECT_TRUE(goes_on.ok()) << goes_on;
}

TEST_F(Takeover, TheLoserThatNoticedNothingDoesNotTakeTheJobBack) {
  auto first = Start("chief:0", kFirst);
  auto second = Start("chief:1", kSecond);
  cluster.sim().RunFor(absl::Seconds(30));
  const absl::Status error = first->Join();
  EXPECT_THAT(std::string(error.message()), NamesTheSecond());
  const absl::Status goes_on = Increment(*second);
  EXPECT_TRUE(goes_on.ok()) << goes_on;
}

TEST_F(Takeover, ACoordinatorThatLosesWhileItConnectsSaysSoAtOnce) {
  cluster.tasks().Kill({Role::kWorker, 0});  // the first waits for it
  std::unique_ptr<ClusterCoordinator> second;
  cluster.sim().CallAt(cluster.sim().Now() + absl::Seconds(3), [&] {
    cluster.tasks().Start({Role::kWorker, 0});
    second = Start("chief:1", kSecond);
  });
  const absl::Time start = cluster.sim().Now();
  const auto first = Connect("chief:0", kFirst);
  EXPECT_THAT(std::string(first.status().message()), NamesTheSecond());
  EXPECT_LT(cluster.sim().Now() - start, absl::Seconds(10));
}

// Holds back the requests for a snapshot of the ps with the counter.
class SlowSave final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    const bool save = absl::EndsWith(message.method, "/HoldShard");
    if (save && message.to == "ps:0") fate.delay = absl::Milliseconds(300);
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }
};

// Whatever the last checkpoint holds, it knows by id: the next coordinator may give every id that
// it does not know to other work.
TEST_F(Takeover, ACheckpointHoldsNoClosureThatItDoesNotKnow) {
  auto first = Start("chief:0", kFirst);
  EXPECT_TRUE(Increment(*first).ok());
  SlowSave slow;
  cluster.network().SetWatcher(&slow);
  cluster.sim().RunFor(absl::Milliseconds(60));  // a checkpoint has begun
  const auto program = first->Register(IncrementProgram("counter"));
  ASSERT_TRUE(program.ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(first->Schedule(*program, {}).ok());
  cluster.sim().RunFor(absl::Milliseconds(400));
  cluster.network().SetWatcher(nullptr);
  cluster.network().Kill("chief:0");
  auto second = Start("chief:1", kSecond);
  ASSERT_TRUE(second->parts().ps->Stats().ok());
  // The closures of the first that its checkpoint does not cover are undone, on every ps.
  const uint64_t next = second->NextId().value;
  const auto value = second->Read(*counter);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->data<float>(), static_cast<float>(next - 1));
}

// Holds back what workers answer, so that closures are open whose pushes are applied.
class SlowAnswer final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage& message) override {
    SimFate fate;
    if (absl::EndsWith(message.method, "/RunClosure")) fate.delay = absl::Seconds(2);
    return fate;
  }
};

// The ids of a state are given again one after another. Those that a coordinator has not come to
// when it dies are the next one's, and no other work gets them.
TEST_F(Takeover, ACheckpointInTheMiddleOfAResumeKeepsWhatIsLeft) {
  auto first = Start("chief:0", kFirst);
  auto program = first->Register(IncrementProgram("counter"));
  ASSERT_TRUE(program.ok());
  SlowAnswer slow;
  cluster.network().SetWatcher(&slow);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(first->Schedule(*program, {}).ok());
  cluster.sim().RunFor(absl::Milliseconds(100));
  ASSERT_TRUE(first->MakeDurable().ok());
  cluster.network().SetWatcher(nullptr);
  cluster.network().Kill("chief:0");

  auto second = Start("chief:1", kSecond);
  EXPECT_EQ(second->NextId(), ClosureId{1});
  EXPECT_TRUE(Increment(*second).ok());
  ASSERT_TRUE(second->MakeDurable().ok());
  cluster.network().Kill("chief:1");

  auto third = Start("chief:2", kSecond + 1);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->next_id(), 3u);
  EXPECT_THAT(left->open(), testing::ElementsAre(2));
  EXPECT_EQ(third->NextId(), ClosureId{2});
}

// A ps that dies before the coordinator is connected costs a recovery, not the connection.
TEST_F(Takeover, APsThatDiesDuringConnectIsWaitedFor) {
  cluster.tasks().Kill({Role::kWorker, 0});
  cluster.sim().CallAt(cluster.sim().Now() + absl::Seconds(2), [&] {
    cluster.tasks().Kill({Role::kPs, 1});
  });
  cluster.sim().CallAt(cluster.sim().Now() + absl::Seconds(4), [&] {
    cluster.tasks().Start({Role::kPs, 1});
    cluster.tasks().Start({Role::kWorker, 0});
  });
  const auto first = Connect("chief:0", kFirst);
  EXPECT_TRUE(first.ok()) << first.status();
}

}  // namespace
}  // namespace cohort
