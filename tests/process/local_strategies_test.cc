// Jobs that train in one worker, as real processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;

class LocalStrategiesProcess : public testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& name,
                                     const std::vector<std::string>& sets) {
    std::vector<std::string> arguments = {
        "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"), "--state_dir",
        temp / name};
    std::vector<std::string> all = {
        R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 2560}})",
        R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 500}})",
        "strategy.type=mirrored", R"(strategy.devices=["cpu:0","cpu:1"])",
        absl::StrCat("export.onnx=", temp / name, ".onnx")};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  std::string Model(const std::string& name) {
    return ReadFile(files, absl::StrCat(temp / name, ".onnx")).value_or("");
  }

  const std::map<std::string, std::string> environment = {{"TF_CONFIG", ""}};
  const std::string coordinator = absl::StrCat(COHORT_BIN_DIR, "/coordinator");
  const TempDirectory temp{"local_strategies"};
  PosixFileSystem files;
};

// Without --local and TF_CONFIG the tasks are those that the strategy needs.
TEST_F(LocalStrategiesProcess, AMirroredJobStartsOneWorkerAndNoParameterServer) {
  const ProcessRun run =
      RunProcess(coordinator, Arguments("a", {"fit.epochs=2"}), environment, absl::Seconds(120));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::Not(testing::HasSubstr("task=ps:0")));
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 32);
  EXPECT_EQ(summary["ps_pushes"], 32) << "each step pushes once";
  EXPECT_EQ(summary["mean_staleness"], 0.0);
  EXPECT_EQ(summary["test_examples"], 500) << "each test example once";
  EXPECT_GT(summary["test_accuracy"], 0.2) << "it learns";
}

// The only worker is killed: its variables are restored into another process, the steps since then
// run again, and the model is the one that it would have been.
TEST_F(LocalStrategiesProcess, AKilledWorkerChangesNothingOfTheModel) {
  const std::vector<std::string> sets = {"fit.epochs=20", "recovery.interval_ms=100"};
  const ProcessRun whole =
      RunProcess(coordinator, Arguments("whole", sets), environment, absl::Seconds(120));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  RunningProcess killed(coordinator, Arguments("killed", sets), environment);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovery_checkpoint ", absl::Minutes(1))) << killed.err();
  const auto text = ReadFile(files, JoinPath(temp / "killed", "worker-0.process"));
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_EQ(kill(json::parse(*text)["pid"], SIGKILL), 0);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovered ", absl::Minutes(1))) << killed.err();
  const ProcessRun run = killed.Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(Model("whole").empty());
  EXPECT_EQ(Model("killed"), Model("whole")) << "bit for bit";
}

// So does a coordinator whose calls are of several steps, and that is killed: the next one goes on
// with the closures that the last checkpoint leaves open.
TEST_F(LocalStrategiesProcess, SeveralStepsForACallAndAKilledCoordinatorChangeNothingOfTheModel) {
  std::vector<std::string> sets = {"fit.epochs=20", "recovery.interval_ms=100"};
  const ProcessRun whole =
      RunProcess(coordinator, Arguments("whole", sets), environment, absl::Seconds(120));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  sets.push_back("compile.steps_per_execution=5");  // of 16 in an epoch
  RunningProcess killed(coordinator, Arguments("killed", sets), environment);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovery_checkpoint ", absl::Minutes(1))) << killed.err();
  killed.Signal(SIGKILL);
  killed.Wait(absl::Minutes(1));
  const ProcessRun run =
      RunProcess(coordinator, Arguments("killed", sets), environment, absl::Seconds(120));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::HasSubstr("event=training_resumed"));
  EXPECT_FALSE(Model("whole").empty());
  EXPECT_EQ(Model("killed"), Model("whole")) << "bit for bit";
  const json wanted = json::parse(whole.LastLine()), got = json::parse(run.LastLine());
  EXPECT_EQ(got["steps"], wanted["steps"]);
  EXPECT_EQ(got["train_loss"], wanted["train_loss"]);
}

}  // namespace
}  // namespace cohort
