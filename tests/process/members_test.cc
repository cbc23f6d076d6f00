// A worker is added to a running job and removed again, by `coordinator ctl`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Each try is a process start; a worker that does not come in so many never does.
constexpr int kTriesMax = 1000;

class MembersTest : public testing::Test {
 protected:
  void Begin() {
    const std::string digits =
        R"({"class_name": "SyntheticDigits", "config": {"seed": 1, "count": )";
    coordinator = std::make_unique<RunningProcess>(
        program,
        std::vector<std::string>{
            "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"), "--local",
            "ps=1,worker=3", "--state_dir", state, "--set",
            absl::StrCat("data.train=", digits, "2560}}"), "--set",
            absl::StrCat("data.test=", digits, "1000}}"), "--set", "fit.epochs=1000000", "--set",
            "cluster.min_workers=3", "--set", "cluster.max_workers=4"},
        std::map<std::string, std::string>{{"TF_CONFIG", ""}});
    ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", absl::Minutes(1))) << coordinator->err();
  }

  ProcessRun Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    arguments.insert(arguments.end(), {"--state_dir", state});
    return RunProcess(program, arguments, {}, absl::Minutes(1));
  }

  // The entry of worker:3; null without one.
  json Worker3() {
    const ProcessRun run = Ctl({"status", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const json status = json::parse(run.out);
    for (const json& member : status["members"]) {
      if (member["task"]["role"] == "worker" && member["task"]["index"] == 3) return member;
    }
    return nullptr;
  }

  const TempDirectory temp{"members"};
  const std::string state = temp / "state";
  const std::string program = absl::StrCat(COHORT_BIN_DIR, "/coordinator");
  std::unique_ptr<RunningProcess> coordinator;
};

TEST_F(MembersTest, AFourthWorkerComesDoesClosuresAndGoes) {
  Begin();
  EXPECT_TRUE(Worker3().is_null());
  const ProcessRun few = Ctl({"remove-worker", "0"});
  EXPECT_EQ(few.exit_code, kExitJobFailed);
  EXPECT_THAT(few.err, HasSubstr("cluster.min_workers is 3"));

  const ProcessRun added = Ctl({"add-worker"});
  ASSERT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.out, "worker:3 was added\n");
  json worker;
  for (int i = 0; i < kTriesMax; ++i) {
    worker = Worker3();
    if (!worker.is_null() && worker["closures_done"] != "0") break;
  }
  ASSERT_FALSE(worker.is_null());
  EXPECT_EQ(worker["state"], "MEMBER_SERVING") << worker;
  EXPECT_NE(worker["closures_done"], "0") << worker;
  const ProcessRun nobody = Ctl({"remove-worker", "127.0.0.1:1"});
  EXPECT_EQ(nobody.exit_code, kExitJobFailed);
  EXPECT_THAT(nobody.err, HasSubstr("no member of this job is at 127.0.0.1:1"));
  const ProcessRun many = Ctl({"add-worker"});
  EXPECT_EQ(many.exit_code, kExitJobFailed);
  EXPECT_THAT(many.err, HasSubstr("cluster.max_workers is 4"));

  const ProcessRun removed = Ctl({"remove-worker", worker["address"].get<std::string>()});
  ASSERT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(removed.out, "worker:3 was removed\n");
  EXPECT_TRUE(Worker3().is_null());
  EXPECT_THAT(Ctl({"status"}).out, HasSubstr("worker:2 serving at 127.0.0.1:"));

  coordinator->Signal(SIGTERM);
  const ProcessRun run = coordinator->Wait(absl::Minutes(1));
  EXPECT_EQ(run.exit_code, kExitInterrupted);
  EXPECT_THAT(run.err, HasSubstr("interrupted by SIGTERM"));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("child_ended"))) << "nobody died";
  const ProcessRun late = Ctl({"status"});
  EXPECT_EQ(late.exit_code, kExitBadConfig);
  EXPECT_THAT(late.err, HasSubstr("no coordinator runs with it"));
}

}  // namespace
}  // namespace cohort
