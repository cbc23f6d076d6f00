// Networks that carry some messages and not others, and servers that come back as other processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "common/wire/error_detail.h"
#include "proto/task.pb.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Loses calls of one method, as a path loses packets above a size: nothing is heard of them, or TCP
// gives up their connection after a while.
class LosesCalls final : public SimWatcher {
 public:
  LosesCalls(std::string method, std::optional<absl::Duration> breaks_within)
      : method_(std::move(method)), breaks_within_(breaks_within) {}
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    fate.lose = absl::EndsWith(message.method, method_);
    fate.breaks_within = breaks_within_;
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  const std::string method_;
  const std::optional<absl::Duration> breaks_within_;
};

constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

absl::Status SetUpWhere(SimCluster& cluster, SimWatcher& watcher,
                        ClusterCoordinator::Options options) {
  options.connect_timeout = kConnectTimeout;
  auto coordinator = cluster.Connect(std::move(options));
  if (!coordinator.ok()) return coordinator.status();
  cluster.network().SetWatcher(&watcher);
  const absl::Status status = MakeCounter(**coordinator).status();
  cluster.network().SetWatcher(nullptr);
  return status;
}

class LostForItsSize : public testing::TestWithParam<std::optional<absl::Duration>> {};

INSTANTIATE_TEST_SUITE_P(NetworkPaths, LostForItsSize,
                         testing::Values(std::nullopt, absl::Seconds(6)));

TEST_P(LostForItsSize, SetUpEndsAndNamesCallBytesPairAndLikelyCause) {
  for (const bool recovery : {false, true}) {
    SimCluster cluster(3, 2, 2);
    ClusterCoordinator::Options options;
    if (recovery) options.recovery_directory = "/recovery";
    LosesCalls hole("/CreateVariables", GetParam());
    const absl::Time start = cluster.sim().Now();
    const absl::Status status = SetUpWhere(cluster, hole, std::move(options));
    EXPECT_EQ(ClassOf(status), proto::PS_LOST) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("chief:0's call CreateVariables of "), HasSubstr(" bytes to ps:"),
                      HasSubstr("check the path MTU"), HasSubstr("answers small calls")))
        << recovery;
    // An attempt may take half of the time, and the last begins before the time is over.
    EXPECT_LE(cluster.sim().Now() - start, 1.5 * kConnectTimeout) << recovery;
    cluster.End();
  }
}

// Hears what workers are told of parameter servers.
class HearsAttach final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    proto::AttachRequest attach;
    // A claim's Attach, which comes before, tells the server of no others.
    if (absl::EndsWith(message.method, "/Attach") && message.to == "ps:1" &&
        attach.ParseFromString(message.request) && attach.ps_size() > 0 &&
        attach.epoch() == epoch && before_attach) {
      std::exchange(before_attach, nullptr)();
    }
    return {};
  }
  void OnArrival(const SimMessage& message) override {
    proto::AttachRequest attach;
    if (!absl::EndsWith(message.method, "/Attach") || !absl::StartsWith(message.to, "worker:") ||
        !attach.ParseFromString(message.request)) {
      return;
    }
    for (const proto::Peer& ps : attach.ps()) told[ps.task().index()] = ps.task().incarnation();
  }
  SimFate OnResponse(const SimMessage& message) override {
    proto::AttachResponse answer;
    if (absl::EndsWith(message.method, "/Attach") && absl::StartsWith(message.to, "ps:") &&
        message.response->ok() && answer.ParseFromString((*message.response)->header)) {
      answered[answer.task().index()] = answer.task().incarnation();
    }
    return {};
  }

  // Runs once, when ps:1, which has answered the claim of the epoch, is to be attached.
  std::function<void()> before_attach;
  uint64_t epoch = 0;
  std::map<int, uint64_t> told;
  std::map<int, uint64_t> answered;
};

// Else a worker would go on with the connection to the process that is gone.
TEST(NetworkPaths, WorkersAreToldWhichProcessAParameterServerIs) {
  SimCluster cluster(5, 2, 2);
  HearsAttach hears;
  cluster.network().SetWatcher(&hears);
  ClusterCoordinator::Options options;
  options.recovery_directory = "/recovery";
  auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto counter = MakeCounter(**coordinator);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE((*coordinator)->ResumeState().ok());
  ASSERT_EQ(hears.answered.size(), 2u);
  EXPECT_EQ(hears.told, hears.answered);
  const std::map<int, uint64_t> before = hears.answered;
  cluster.tasks().Kill({Role::kPs, 1});
  cluster.tasks().Start({Role::kPs, 1});
  cluster.sim().RunFor(absl::Seconds(10));  // it is noticed, and a new epoch claimed
  ASSERT_TRUE((*coordinator)->Schedule(counter->increment, {}).ok());
  ASSERT_TRUE((*coordinator)->Join().ok());
  EXPECT_NE(hears.answered[1], before.at(1));
  EXPECT_EQ(hears.told, hears.answered);
  coordinator->reset();
  cluster.End();
}

// The process that has answered the claim is not always the one that is attached.
TEST(NetworkPaths, WorkersAreToldOfAServerThatIsRestartedBetweenClaimAndAttach) {
  // The epoch of the start, that of the recovery at the start, and that behind a loss.
  for (const uint64_t epoch : {1, 2, 3}) {
    SimCluster cluster(6, 2, 2);
    HearsAttach hears;
    cluster.network().SetWatcher(&hears);
    const auto restart = [&cluster] {
      cluster.sim().CallAt(cluster.sim().Now(), [&cluster] {
        cluster.tasks().Kill({Role::kPs, 1});
        cluster.tasks().Start({Role::kPs, 1});
      });
    };
    hears.before_attach = restart;
    hears.epoch = epoch;
    ClusterCoordinator::Options options;
    options.recovery_directory = "/recovery";
    auto coordinator = cluster.Connect(std::move(options));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    const auto counter = MakeCounter(**coordinator);
    ASSERT_TRUE(counter.ok()) << counter.status();
    ASSERT_TRUE((*coordinator)->ResumeState().ok());
    if (epoch == 3) {
      restart();
      cluster.sim().RunFor(absl::Seconds(10));
    }
    EXPECT_FALSE(hears.before_attach) << "it was not attached";
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE((*coordinator)->Schedule(counter->increment, {}).ok());
    }
    ASSERT_TRUE((*coordinator)->Join().ok());
    EXPECT_EQ(hears.told, hears.answered) << epoch;
    coordinator->reset();
    cluster.End();
  }
}

}  // namespace
}  // namespace cohort
