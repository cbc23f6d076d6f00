// Real processes get SIGKILL while a job is set up: a worker, a parameter server, the coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/daemon_cluster.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kExamples = 6400;
constexpr int kSteps = kExamples / 32;

// A moment of the set-up: this line was logged so often.
struct Phase {
  const char* name;
  const char* role;  // whose log has it: "chief", or "ps", the one that is killed
  const char* line;
  int times;
};

// With a recovery directory an epoch is claimed twice: for the job and, behind the creation of the
// variables, for what an earlier coordinator may have left.
constexpr Phase kClaim = {"Claim", "chief", "event=epoch_claimed", 1};
constexpr Phase kAttach = {"Attach", "chief", "event=task_attached task=\"ps:0", 1};
constexpr Phase kAttachWorker = {"AttachWorker", "chief", "event=task_attached task=\"worker", 1};
constexpr Phase kCreateVariables = {"CreateVariables", "ps", "event=variables_created", 1};
constexpr Phase kClaimAgain = {"ClaimAgain", "chief", "event=epoch_claimed", 2};
constexpr Phase kRestore = {"Restore", "chief", "event=recovered", 1};
constexpr Phase kFirstClosure = {"FirstClosure", "chief", "Epoch 1/", 1};

std::string NameOf(const testing::TestParamInfo<Phase>& info) { return info.param.name; }

class KilledAtSetup : public testing::TestWithParam<Phase> {
 protected:
  void StartCoordinator() { coordinator = cluster.StartCoordinator(kExamples, Sets()); }

  // One worker with one closure at a time makes the same model whenever it is made.
  std::vector<std::string> Sets() const {
    return {"fit.epochs=1", "fit.closures_in_flight=1", recovery};
  }

  void AwaitPhase() {
    RunningProcess& logs =
        GetParam().role == std::string("ps") ? *cluster.ps(0).process : *coordinator;
    ASSERT_TRUE(logs.ReadErrUntil(GetParam().line, kPatience, GetParam().times)) << logs.err();
  }

  static void Kill(RunningProcess& process) {
    process.Signal(SIGKILL);
    const ProcessRun run = process.Wait(kPatience);
    ASSERT_EQ(run.exit_code, 128 + SIGKILL) << "it was not there to be killed: " << run.err;
  }

  // The job has the result of one that nothing has disturbed.
  void ExpectExactResult() {
    const ProcessRun run = coordinator->Wait(kPatience);
    ASSERT_EQ(run.exit_code, kExitOk) << run.err;
    const json summary = json::parse(run.LastLine());
    EXPECT_EQ(summary["steps"], kSteps);
    DaemonCluster quiet(2, 1);
    quiet.StartAll();
    const ProcessRun undisturbed =
        quiet.StartCoordinator(kExamples, {"fit.epochs=1", "fit.closures_in_flight=1"})
            ->Wait(kPatience);
    ASSERT_EQ(undisturbed.exit_code, kExitOk) << undisturbed.err;
    EXPECT_EQ(summary["test_loss"], json::parse(undisturbed.LastLine())["test_loss"]);
  }

  const TempDirectory temp{"setup-loss"};
  std::string recovery = absl::StrCat("recovery.directory=", temp / "recovery");
  DaemonCluster cluster{2, 1};
  std::unique_ptr<RunningProcess> coordinator;
};

class WorkerKilledAtSetup : public testing::TestWithParam<Phase> {};

TEST_P(WorkerKilledAtSetup, OneOfTwoWorkersCostsNothing) {
  DaemonCluster cluster(1, 2);
  cluster.StartAll();
  const auto coordinator = cluster.StartCoordinator(kExamples, {"fit.epochs=1"});
  ASSERT_TRUE(coordinator->ReadErrUntil(GetParam().line, kPatience)) << coordinator->err();
  cluster.worker(0).process->Signal(SIGKILL);
  const ProcessRun run = coordinator->Wait(kPatience);
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], kSteps);
}

INSTANTIATE_TEST_SUITE_P(Phases, WorkerKilledAtSetup,
                         testing::Values(kClaim, kAttachWorker, kFirstClosure), NameOf);

using ServerKilledAtSetup = KilledAtSetup;

TEST_P(ServerKilledAtSetup, IsMadeGoodWhenItIsStartedAgain) {
  cluster.StartAll();
  StartCoordinator();
  AwaitPhase();
  Kill(*cluster.ps(0).process);
  ASSERT_TRUE(cluster.Start(cluster.ps(0)));
  ExpectExactResult();
}

INSTANTIATE_TEST_SUITE_P(Phases, ServerKilledAtSetup,
                         testing::Values(kClaim, kAttach, kCreateVariables, kClaimAgain, kRestore,
                                         kFirstClosure),
                         NameOf);

using ServerKilledWithoutRecovery = KilledAtSetup;

TEST_P(ServerKilledWithoutRecovery, EndsTheJobNamingIt) {
  recovery = "recovery.enabled=false";
  cluster.StartAll();
  StartCoordinator();
  AwaitPhase();
  Kill(*cluster.ps(0).process);
  const ProcessRun run = coordinator->Wait(kPatience);
  EXPECT_EQ(run.exit_code, kExitLostCluster) << run.err;
  const size_t error = run.err.rfind("\nerror: ");  // the last line
  ASSERT_NE(error, std::string::npos) << run.err;
  EXPECT_THAT(run.err.substr(error), HasSubstr("ps:0"));
}

INSTANTIATE_TEST_SUITE_P(Phases, ServerKilledWithoutRecovery,
                         testing::Values(kCreateVariables, kFirstClosure), NameOf);

using CoordinatorKilledAtSetup = KilledAtSetup;

TEST_P(CoordinatorKilledAtSetup, IsMadeGoodByTheNextOne) {
  cluster.StartAll();
  StartCoordinator();
  AwaitPhase();
  Kill(*coordinator);
  StartCoordinator();
  ExpectExactResult();
}

INSTANTIATE_TEST_SUITE_P(Phases, CoordinatorKilledAtSetup,
                         testing::Values(kClaim, kAttach, kAttachWorker, kCreateVariables,
                                         kClaimAgain, kRestore, kFirstClosure),
                         NameOf);

}  // namespace
}  // namespace cohort
