// A process dies while a job is set up: at each kind of call that comes before the first closure,
// the one that gets it. A worker's loss costs nothing, whichever was asked; a parameter server's
// costs a recovery, or ends the job soon, naming it, where there is none; the coordinator's is made
// good by the next one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

using testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(2);
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

class SetupLoss : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(const std::string& host,
                                                              const std::string& recovery) {
    ClusterCoordinator::Options options;
    options.cluster = cluster.tasks().spec();
    options.settings = 1;
    options.lease = kLease;
    options.recovery_directory = recovery;
    return ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(),
                                       std::move(options));
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

  void TearDown() override {
    cluster.network().SetWatcher(nullptr);
    EXPECT_TRUE(watcher == nullptr || watcher->struck()) << "no such call came";
  }

  SimCluster cluster{21, /*ps=*/2, /*workers=*/2};
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

// Stands still: calls to it get no answer, and no connection breaks.
TEST_P(OfAServerWithoutRecovery, ThatStandsStillEndsTheJobWithinTheLease) {
  watcher = std::make_unique<AtFirst>(GetParam(), "ps", [this](const std::string& host) {
    struck_at = cluster.sim().Now();
    for (const char* other : {"chief:0", "worker:0", "worker:1"}) {
      cluster.network().CutOneWay(host, other);
    }
  });
  cluster.network().SetWatcher(watcher.get());
  const auto summary = ConnectAndTrain("chief:0", "");
  EXPECT_LT(cluster.sim().Now() - struck_at, kLease + absl::Seconds(1));
  EXPECT_EQ(ClassOf(summary.status()), proto::PS_LOST) << summary.status();
}

class OfTheCoordinator : public SetupLoss, public testing::WithParamInterface<const char*> {};

TEST_P(OfTheCoordinator, IsMadeGoodByTheNextOne) {
  const auto first = Connect("chief:0", "/recovery");
  ASSERT_TRUE(first.ok()) << first.status();
  watcher = std::make_unique<AtFirst>(GetParam(), "", [&](const std::string&) {
    cluster.sim().CallAt(cluster.sim().Now(), [&] {
      cluster.network().Kill("chief:0");
      (*first)->Abort(absl::CancelledError("it is gone"));
    });
  });
  cluster.network().SetWatcher(watcher.get());
  EXPECT_FALSE(Train("chief:0", **first).ok());
  const auto summary = ConnectAndTrain("chief:1", "/recovery");
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, kSteps);
}

INSTANTIATE_TEST_SUITE_P(Calls, OfTheCoordinator,
                         testing::Values("/CreateDataset", "/CreateVariables", "/RestoreShard",
                                         "/RegisterProgram", "/RunClosure"));

}  // namespace
}  // namespace cohort
