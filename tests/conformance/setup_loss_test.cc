// A process dies while a job is set up: at each kind of call that comes before the first closure,
// the one that gets it. A worker's loss costs nothing, whichever was asked; a parameter server's
// costs a recovery, or ends the job soon, naming it, where there is none; the coordinator's is made
// good by the next one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(2);
constexpr absl::Duration kConnectTimeout = absl::Seconds(20);
constexpr int64_t kSteps = 6;

// Three steps an epoch.
constexpr char kDigits[] = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 96}},
             "pipeline": [{"class_name": "Flatten"},
                          {"class_name": "Rescaling", "config": {"scale": 0.0039}}]},
    "fit": {"batch_size": 32, "epochs": 2}})";

TaskId TaskOf(const std::string& host) {
  const size_t colon = host.find(':');
  return {*RoleFromName(host.substr(0, colon)), std::stoi(host.substr(colon + 1))};
}

// Runs `strike` once, when the first call of a method arrives at a task of a role.
class AtFirst final : public SimWatcher {
 public:
  AtFirst(std::string method, std::string role, std::function<void(std::string)> strike)
      : method_(std::move(method)), role_(std::move(role)), strike_(std::move(strike)) {}
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (strike_ == nullptr || !absl::EndsWith(message.method, method_)) return;
    if (!absl::StartsWith(message.to, role_)) return;
    std::exchange(strike_, nullptr)(message.to);
  }
  SimFate OnResponse(const SimMessage&) override { return {}; }
  bool struck() const { return strike_ == nullptr; }

 private:
  const std::string method_;
  const std::string role_;
  std::function<void(std::string)> strike_;
};

// Loses calls of a method to tasks whose names begin with `to`, as a path loses packets above a
// size.
class Loses final : public SimWatcher {
 public:
  Loses(std::string method, std::string to) : method_(std::move(method)), to_(std::move(to)) {}
  SimFate OnRequest(const SimMessage& message) override {
    SimFate fate;
    fate.lose = absl::EndsWith(message.method, method_) && absl::StartsWith(message.to, to_);
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  const std::string method_;
  const std::string to_;
};

class SetupLoss : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(const std::string& host,
                                                              const std::string& recovery) {
    ClusterCoordinator::Options options;
    const ClusterSpec all = cluster.tasks().spec();
    for (const auto& [task, address] : all.tasks()) {
      if (task.role != Role::kPs || task.index < servers) options.cluster.Add(task, address);
    }
    options.settings = 1;
    options.lease = kLease;
    options.connect_timeout = kConnectTimeout;
    options.recovery_directory = recovery;
    return ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(), std::move(options));
  }

  absl::StatusOr<TrainSummary> Train(const std::string& host, ClusterCoordinator& coordinator) {
    const auto job = ParseJob(kDigits, "job", {});
    EXPECT_TRUE(job.ok()) << job.status();
    const World world = cluster.WorldOf(host);
    ASSIGN_OR_RETURN(const DataSources data,
                     FindDataSources(world, cluster.waiter(), job->data, {}, job->seed));
    return Trainer(world, cluster.waiter(), coordinator, *job, data).Run();
  }

  absl::StatusOr<TrainSummary> ConnectAndTrain(const std::string& host,
                                               const std::string& recovery) {
    ASSIGN_OR_RETURN(const auto coordinator, Connect(host, recovery));
    return Train(host, *coordinator);
  }

  // The process that gets the first such call dies, and another one starts a while later.
  void KillAtFirst(const std::string& method, const std::string& role) {
    watcher = std::make_unique<AtFirst>(method, role, [this](const std::string& host) {
      cluster.sim().CallAt(cluster.sim().Now(), [this, host] {
        struck_at = cluster.sim().Now();
        cluster.tasks().Kill(TaskOf(host));
        cluster.sim().CallAt(cluster.sim().Now() + absl::Milliseconds(1500),
                             [this, host] { cluster.tasks().Start(TaskOf(host)); });
      });
    });
    cluster.network().SetWatcher(watcher.get());
  }

  // The process that gets the first such call stands still: calls to it get no answer, and no
  // connection breaks.
  void StopAtFirst(const std::string& method, const std::string& role) {
    watcher = std::make_unique<AtFirst>(method, role, [this](const std::string& host) {
      struck_at = cluster.sim().Now();
      for (const char* other : {"chief:0", "ps:0", "ps:1", "worker:0", "worker:1"}) {
        if (host != other) cluster.network().CutOneWay(host, other);
      }
    });
    cluster.network().SetWatcher(watcher.get());
  }

  // Such calls are lost for ever, and all others are answered.
  absl::StatusOr<TrainSummary> TrainWithout(const std::string& method, const std::string& to) {
    const auto coordinator = Connect("chief:0", "");
    if (!coordinator.ok()) return coordinator.status();
    Loses hole(method, to);
    cluster.network().SetWatcher(&hole);
    struck_at = cluster.sim().Now();
    auto summary = Train("chief:0", **coordinator);
    cluster.network().SetWatcher(nullptr);
    return summary;
  }

  void TearDown() override {
    cluster.network().SetWatcher(nullptr);
    EXPECT_TRUE(watcher == nullptr || watcher->struck()) << "no such call came";
  }

  SimCluster cluster{21, /*ps=*/2, /*workers=*/2};
  int servers = 2;  // that the next coordinator knows
  std::unique_ptr<AtFirst> watcher;
  absl::Time struck_at;
};

class OfAWorker : public SetupLoss, public testing::WithParamInterface<const char*> {};

TEST_P(OfAWorker, CostsNothing) {
  KillAtFirst(GetParam(), "worker");
  const auto summary = ConnectAndTrain("chief:0", "");
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, kSteps);
}

INSTANTIATE_TEST_SUITE_P(Calls, OfAWorker,
                         testing::Values("/GetStatus", "/Attach", "/CreateDataset",
                                         "/RegisterProgram", "/RunClosure"));

class OfAWorkerThatStandsStill : public SetupLoss,
                                 public testing::WithParamInterface<const char*> {};

TEST_P(OfAWorkerThatStandsStill, CostsItsLease) {
  StopAtFirst(GetParam(), "worker");
  const auto summary = ConnectAndTrain("chief:0", "");
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, kSteps);
  EXPECT_LT(cluster.sim().Now() - struck_at, kLease + absl::Seconds(1));
}

INSTANTIATE_TEST_SUITE_P(Calls, OfAWorkerThatStandsStill,
                         testing::Values("/CreateDataset", "/RegisterProgram", "/RunClosure"));

class UnansweredByWorkers : public SetupLoss, public testing::WithParamInterface<const char*> {};

TEST_P(UnansweredByWorkers, EndsTheJobAndNamesCallBytesPairAndLikelyCause) {
  const auto summary = TrainWithout(GetParam(), "worker:");
  EXPECT_EQ(ClassOf(summary.status()), proto::WORKER_LOST) << summary.status();
  EXPECT_THAT(std::string(summary.status().message()),
              AllOf(ContainsRegex(absl::StrCat("chief:0's call ", GetParam() + 1,
                                               " of [0-9]+ bytes to worker:")),
                    HasSubstr("check the path MTU")));
  // One worker is asked for its data, then the other, for half of the time each. A call of a
  // closure is given up after a quarter, and the last may begin just before the end.
  EXPECT_LE(cluster.sim().Now() - struck_at, 2 * kConnectTimeout);
}

TEST_P(UnansweredByWorkers, OfWhomAnotherAnswersCostsTime) {
  const auto summary = TrainWithout(GetParam(), "worker:0");
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, kSteps);
  // For each of two data sets it is asked twice, for half of the time each, before closures run,
  // and then it holds up the closures that it has.
  EXPECT_LE(cluster.sim().Now() - struck_at, 5 * kConnectTimeout);
}

INSTANTIATE_TEST_SUITE_P(Calls, UnansweredByWorkers,
                         testing::Values("/CreateDataset", "/RegisterProgram"));

class OfAServer : public SetupLoss, public testing::WithParamInterface<const char*> {};

TEST_P(OfAServer, CostsARecovery) {
  KillAtFirst(GetParam(), "ps");
  const auto summary = ConnectAndTrain("chief:0", "/recovery");
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, kSteps);
}

INSTANTIATE_TEST_SUITE_P(Calls, OfAServer,
                         testing::Values("/GetStatus", "/Attach", "/CreateVariables",
                                         "/RestoreShard", "/Pull"));

class OfAServerWithoutRecovery : public SetupLoss,
                                 public testing::WithParamInterface<const char*> {};

TEST_P(OfAServerWithoutRecovery, EndsTheJobSoonNamingIt) {
  KillAtFirst(GetParam(), "ps");
  const auto summary = ConnectAndTrain("chief:0", "");
  EXPECT_LT(cluster.sim().Now() - struck_at, kLease + absl::Seconds(1));
  EXPECT_EQ(ClassOf(summary.status()), proto::PS_LOST) << summary.status();
  EXPECT_THAT(std::string(summary.status().message()), HasSubstr("ps:"));
}

INSTANTIATE_TEST_SUITE_P(Calls, OfAServerWithoutRecovery,
                         testing::Values("/CreateVariables", "/Pull"));

TEST_P(OfAServerWithoutRecovery, ThatStandsStillEndsTheJobWithinTheLease) {
  StopAtFirst(GetParam(), "ps");
  const auto summary = ConnectAndTrain("chief:0", "");
  EXPECT_LT(cluster.sim().Now() - struck_at, kLease + absl::Seconds(1));
  EXPECT_EQ(ClassOf(summary.status()), proto::PS_LOST) << summary.status();
}

class OfTheCoordinator : public SetupLoss, public testing::WithParamInterface<const char*> {
 protected:
  // Trains until the first such call arrives, and is killed.
  void TrainAndDie(const std::string& method, const std::string& recovery) {
    const auto first = Connect("chief:0", recovery);
    ASSERT_TRUE(first.ok()) << first.status();
    watcher = std::make_unique<AtFirst>(method, "", [&](const std::string&) {
      cluster.sim().CallAt(cluster.sim().Now(), [&] {
        cluster.network().Kill("chief:0");
        (*first)->Abort(absl::CancelledError("it is gone"));
      });
    });
    cluster.network().SetWatcher(watcher.get());
    EXPECT_FALSE(Train("chief:0", **first).ok());
  }

  void ExpectNextTrains(const std::string& recovery) {
    const auto summary = ConnectAndTrain("chief:1", recovery);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->steps, kSteps);
  }
};

TEST_P(OfTheCoordinator, IsMadeGoodByTheNextOne) {
  TrainAndDie(GetParam(), "/recovery");
  ExpectNextTrains("/recovery");
}

TEST_P(OfTheCoordinator, IsMadeGoodByOneThatHasMoreServers) {
  servers = 1;
  TrainAndDie(GetParam(), "/recovery");
  servers = 2;
  ExpectNextTrains("/recovery");
}

TEST_P(OfTheCoordinator, WithoutRecoveryIsMadeGoodByOneThatHasMoreServers) {
  servers = 1;
  TrainAndDie(GetParam() == std::string("/RestoreShard") ? "/Pull" : GetParam(), "");
  servers = 2;
  ExpectNextTrains("");
}

INSTANTIATE_TEST_SUITE_P(Calls, OfTheCoordinator,
                         testing::Values("/CreateDataset", "/CreateVariables", "/RestoreShard",
                                         "/RegisterProgram", "/RunClosure"));

}  // namespace
}  // namespace cohort
