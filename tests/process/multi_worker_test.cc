// Jobs that train in three workers together, as real processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class MultiWorkerProcess : public testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& name,
                                     const std::vector<std::string>& sets) {
    std::vector<std::string> arguments = {
        "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"),
        "--local", "worker=3", "--state_dir", temp / name};
    std::vector<std::string> all = {
        R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 2560}})",
        R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 500}})",
        "strategy.type=multi_worker_mirrored", absl::StrCat("export.onnx=", temp / name, ".onnx")};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  ProcessRun Run(const std::string& name, const std::vector<std::string>& sets) {
    return RunProcess(coordinator, Arguments(name, sets), environment, absl::Minutes(3));
  }
  std::string Model(const std::string& name) {
    return ReadFile(files, absl::StrCat(temp / name, ".onnx")).value_or("");
  }
  void Kill(const std::string& name, int worker) {
    const auto text = ReadFile(
        files, JoinPath(temp / name, absl::StrCat("worker-", worker, ".process")));
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_EQ(kill(json::parse(*text)["pid"], SIGKILL), 0);
  }

  const std::map<std::string, std::string> environment = {{"TF_CONFIG", ""}};
  const std::string coordinator = absl::StrCat(COHORT_BIN_DIR, "/coordinator");
  const TempDirectory temp{"multi_worker"};
  PosixFileSystem files;
};

TEST_F(MultiWorkerProcess, ThreeWorkersTrainWithoutAParameterServer) {
  const ProcessRun run = Run("three", {"fit.epochs=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::Not(HasSubstr("task=ps:0")));
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 32);
  EXPECT_EQ(summary["ps_pushes"], 3 * 32) << "each step is one update of each worker's copy";
  EXPECT_EQ(summary["mean_staleness"], 0.0);
  EXPECT_EQ(summary["test_examples"], 500) << "each test example once";
  EXPECT_GT(summary["test_accuracy"], 0.2) << "it learns";
  // Whether gradients meet in shared memory or as frames changes no bit.
  std::vector<std::string> frames = Arguments("frames", {"fit.epochs=2"});
  frames.insert(frames.end(), {"--transport", "tcp"});
  const ProcessRun again = RunProcess(coordinator, frames, environment, absl::Minutes(3));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_FALSE(Model("three").empty());
  EXPECT_EQ(Model("frames"), Model("three")) << "bit for bit";
}

TEST_F(MultiWorkerProcess, AKilledWorkerEndsTheJobByNameWhereNothingIsKeptForRecovery) {
  RunningProcess job(coordinator,
                     Arguments("lost", {"fit.epochs=1000", "recovery.enabled=false"}),
                     environment);
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  Kill("lost", 1);
  const ProcessRun run = job.Wait(absl::Minutes(1));
  EXPECT_EQ(run.exit_code, kExitLostCluster) << run.err;
  EXPECT_THAT(run.err, HasSubstr("error: the home of variables worker:1 was lost"));
  EXPECT_THAT(run.err, HasSubstr("synchronous training needs all of its workers"));
}

// The copies of all are put back to the last checkpoint, the steps since then run again, and the
// model is the one that it would have been.
TEST_F(MultiWorkerProcess, AKilledWorkerChangesNothingOfTheModel) {
  const std::vector<std::string> sets = {"fit.epochs=20", "recovery.interval_ms=100"};
  const ProcessRun whole = Run("whole", sets);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  RunningProcess killed(coordinator, Arguments("killed", sets), environment);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovery_checkpoint ", absl::Minutes(1))) << killed.err();
  Kill("killed", 2);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovered ", absl::Minutes(1))) << killed.err();
  const ProcessRun run = killed.Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(Model("whole").empty());
  EXPECT_EQ(Model("killed"), Model("whole")) << "bit for bit";
}

}  // namespace
}  // namespace cohort
