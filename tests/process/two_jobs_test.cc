// Two coordinators on the tasks of one TF_CONFIG, and two with tasks of their own in one directory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "common/cluster/exit_codes.h"
#include "tests/support/daemon_cluster.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kExamples = 640;
const char* const kOnce = "fit.epochs=1";
const char* const kEndless = "fit.epochs=1000000";
// Of this job alone, and with the values that its variables have.
const char* const kNoRecovery = "recovery.enabled=false";

class TwoJobs : public testing::Test {
 protected:
  void StartFirst() {
    cluster.StartAll();
    first = cluster.StartCoordinator(kExamples, {kEndless, kNoRecovery, "name=first"});
    ASSERT_TRUE(first->ReadErrUntil("Epoch 2/", kPatience)) << first->err();
  }

  // Takes all tasks, trains, and ends them.
  void ExpectTrains(const std::string& name, const std::vector<std::string>& flags) {
    const auto second =
        cluster.StartCoordinator(kExamples, {kOnce, kNoRecovery, "name=" + name}, flags);
    const ProcessRun run = second->Wait(kPatience);
    ASSERT_EQ(run.exit_code, kExitOk) << run.err;
    const json summary = json::parse(run.LastLine());
    EXPECT_EQ(summary["steps"], kExamples / 32);
    EXPECT_EQ(summary["ps_pushes"], kExamples / 32) << "of this job alone";
    EXPECT_THAT(run.err, HasSubstr("event=variables_replaced"));
    const ProcessRun old = first->Wait(kPatience);
    EXPECT_EQ(old.exit_code, kExitJobFailed);
    EXPECT_THAT(old.err, HasSubstr("another coordinator has taken over this job"));
    EXPECT_THAT(old.err, HasSubstr("job '" + name + "'"));
    for (DaemonCluster::Task* const task : cluster.tasks()) {
      EXPECT_EQ(task->process->Wait(kPatience).exit_code, kExitOk);
    }
  }

  DaemonCluster cluster{1, 2};
  std::unique_ptr<RunningProcess> first;
};

TEST_F(TwoJobs, TheSameJobTakesOverFromItselfAndTheOldOneEndsNoTask) {
  StartFirst();
  ExpectTrains("first", {});
}

TEST_F(TwoJobs, AnotherJobIsRefusedNamingTheOneThatRunsUnlessItIsToTakeOver) {
  StartFirst();
  const auto second = cluster.StartCoordinator(kExamples, {kOnce, kNoRecovery, "name=second"});
  const ProcessRun refused = second->Wait(kPatience);
  EXPECT_EQ(refused.exit_code, kExitBadConfig);
  EXPECT_THAT(refused.err, HasSubstr("job 'first' runs on this cluster"));
  EXPECT_THAT(refused.err, HasSubstr(absl::StrCat(", process ", first->pid(), " on host ")));
  ExpectTrains("second", {"--take_over"});
}

// The same command, started twice: each would remove the other's recovery checkpoints.
TEST(TwoLocalJobs, HaveNoRecoveryDirectoryTogether) {
  const TempDirectory temp("two-local-jobs");
  signal(SIGHUP, SIG_DFL);  // nohup has this process and its children ignore it
  const auto start = [&temp] {
    return std::make_unique<RunningProcess>(
        absl::StrCat(COHORT_BIN_DIR, "/coordinator"),
        std::vector<std::string>{
            "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"), "--local",
            "ps=1,worker=1", "--set",
            R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 640}})",
            "--set", kEndless, "--set", absl::StrCat("checkpoint.directory=", temp.path())},
        std::map<std::string, std::string>{{"TF_CONFIG", ""}});
  };
  const auto first = start();
  ASSERT_TRUE(first->ReadErrUntil("Epoch 2/", kPatience)) << first->err();
  const ProcessRun second = start()->Wait(kPatience);
  EXPECT_EQ(second.exit_code, kExitBadConfig) << second.err;
  EXPECT_THAT(second.err, HasSubstr("is in use by another coordinator"));
  EXPECT_THAT(second.err, HasSubstr(absl::StrCat("process ", first->pid(), " on host ")));
  // A terminal that closes ends the job as SIGTERM does.
  first->Signal(SIGHUP);
  const ProcessRun ended = first->Wait(kPatience);
  EXPECT_EQ(ended.exit_code, kExitInterrupted) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("interrupted by SIGHUP"));
  const auto third = start();
  EXPECT_TRUE(third->ReadErrUntil("event=resumed", kPatience)) << third->err();
  third->Signal(SIGTERM);
  EXPECT_EQ(third->Wait(kPatience).exit_code, kExitInterrupted) << third->err();
}

}  // namespace
}  // namespace cohort
