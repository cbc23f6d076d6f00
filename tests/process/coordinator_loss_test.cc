// The coordinator is killed; its local tasks, and the next coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/unique_fd.h"
#include "common/cluster/exit_codes.h"
#include "common/wire/route/real_world.h"
#include "coordinator/local/local_cluster.h"
#include "coordinator/local/process_id.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr TaskId kPs0 = {Role::kPs, 0}, kWorker0 = {Role::kWorker, 0},
                 kWorker1 = {Role::kWorker, 1};
constexpr int kEndless = 1000000;

bool Lives(pid_t pid) { return IdentifyProcess(pid).ok(); }

class CoordinatorLoss : public testing::Test {
 protected:
  // Orphans become this process's children, so that it can see how they end.
  void SetUp() override { ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  void TearDown() override {
    for (const auto& [task, pid] : seen) {
      if (waitpid(pid, nullptr, WNOHANG) == 0) kill(pid, SIGKILL);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  std::vector<std::string> Arguments(int epochs, const std::string& orphan_timeout) const {
    const std::string digits =
        R"({"class_name": "SyntheticDigits", "config": {"seed": 1, "count": )";
    return {"--job",
            absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"),
            "--local",
            "ps=1,worker=2",
            "--state_dir",
            state,
            "--orphan_timeout",
            orphan_timeout,
            "--set",
            absl::StrCat("data.train=", digits, "2560}}"),
            "--set",
            absl::StrCat("data.test=", digits, "1000}}"),
            "--set",
            "cluster.lease_timeout_ms=1000",
            "--set",
            absl::StrCat("fit.epochs=", epochs)};
  }

  std::unique_ptr<RunningProcess> StartCoordinator(int epochs,
                                                   const std::string& orphan_timeout = "60s") {
    return std::make_unique<RunningProcess>(absl::StrCat(COHORT_BIN_DIR, "/coordinator"),
                                            Arguments(epochs, orphan_timeout),
                                            std::map<std::string, std::string>{{"TF_CONFIG", ""}});
  }

  // A coordinator in the middle of its job was killed. Its tasks.
  void TrainAndKill(const std::string& orphan_timeout = "60s") {
    const auto coordinator = StartCoordinator(kEndless, orphan_timeout);
    ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", absl::Minutes(1))) << coordinator->err();
    for (const TaskId task : {kPs0, kWorker0, kWorker1}) {
      seen[task] = json::parse(
          Content(absl::StrCat(RoleName(task.role), "-", task.index, ".process")))["pid"];
      std::string name;
      std::getline(std::ifstream(absl::StrCat("/proc/", seen[task], "/comm")), name);
      EXPECT_EQ(name, RoleName(task.role));
    }
    coordinator->Signal(SIGKILL);
    EXPECT_EQ(coordinator->Wait(absl::Minutes(1)).exit_code, 128 + SIGKILL);
  }

  // The status of an orphan that ended.
  static int AwaitOrphan(pid_t pid) {
    const UniqueFd descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd wait = {descriptor.get(), POLLIN, 0};
    if (descriptor.ok() && poll(&wait, 1, 60000) != 1) return -1;
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  std::string Content(const std::string& name) {
    return ReadFile(files, JoinPath(state, name)).value_or("");
  }

  const TempDirectory temp{"coordinator-loss"};
  const std::string state = temp / "state";
  PosixFileSystem files;
  std::map<TaskId, pid_t> seen;
};

TEST_F(CoordinatorLoss, TheNextOneAdoptsTheTasksAndTheJobRunsToItsEnd) {
  TrainAndKill();
  for (const auto& [task, pid] : seen) EXPECT_TRUE(Lives(pid)) << task.ToString();
  const ProcessRun run = StartCoordinator(2)->Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 32);
  for (const auto& [task, pid] : seen) {
    EXPECT_THAT(run.err, HasSubstr(absl::StrCat("event=child_adopted task=", task.ToString(),
                                                " pid=", pid, "\n")));
    // A clean end stops adopted tasks as others: asked to, they drain and exit with 0.
    EXPECT_EQ(AwaitOrphan(pid), 0) << task.ToString();
  }
  EXPECT_THAT(run.err, Not(HasSubstr("child_started")));
  EXPECT_THAT(run.err, Not(HasSubstr("child_ended")));
}

TEST_F(CoordinatorLoss, OrphansEndByThemselves) {
  TrainAndKill("1s");
  for (const auto& [task, pid] : seen) {
    const int status = AwaitOrphan(pid);
    EXPECT_TRUE(WIFEXITED(status)) << task.ToString();
    EXPECT_EQ(WEXITSTATUS(status), kExitOrphaned) << task.ToString();
  }
  EXPECT_THAT(Content("ps-0.log"), HasSubstr("event=orphaned cause=\"no coordinator came for 1s"));
  EXPECT_THAT(Content("worker-1.log"), HasSubstr("event=orphaned"));
  // Nothing of them is in the way of the next.
  const ProcessRun run = StartCoordinator(1)->Wait(absl::Minutes(2));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("child_adopted")));
}

// Exit code 7 is a promise to restart policies.
TEST_F(CoordinatorLoss, WithoutANamedDirectoryTheSameCommandIsNotSaidToGoOn) {
  std::vector<std::string> arguments = Arguments(kEndless, "60s");
  const auto flag = std::find(arguments.begin(), arguments.end(), "--state_dir");
  arguments.erase(flag, flag + 2);
  RunningProcess job(absl::StrCat(COHORT_BIN_DIR, "/coordinator"), arguments,
                     {{"TF_CONFIG", ""}, {"TMPDIR", temp.path()}});
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  job.Signal(SIGTERM);
  const ProcessRun interrupted = job.Wait(absl::Minutes(1));
  EXPECT_EQ(interrupted.exit_code, kExitJobFailed) << interrupted.err;
  EXPECT_THAT(interrupted.err, HasSubstr(absl::StrCat("the same command with --state_dir ",
                                                      temp.path(), "/cohort-")));
}

TEST_F(CoordinatorLoss, ASecondCoordinatorAtOnceIsRefused) {
  const auto first = StartCoordinator(kEndless);
  ASSERT_TRUE(first->ReadErrUntil("Epoch 1/", absl::Minutes(1))) << first->err();
  const ProcessRun second = StartCoordinator(1)->Wait(absl::Minutes(1));
  EXPECT_EQ(second.exit_code, kExitBadConfig) << second.err;
  EXPECT_THAT(second.err,
              AllOf(HasSubstr(state), HasSubstr(absl::StrCat("process id ", first->pid()))));
  EXPECT_TRUE(first->ReadErrUntil("Epoch 3/", absl::Minutes(1))) << "it was disturbed";
  first->Signal(SIGTERM);
  const ProcessRun interrupted = first->Wait(absl::Minutes(1));
  EXPECT_EQ(interrupted.exit_code, kExitInterrupted) << interrupted.err;
  EXPECT_THAT(interrupted.err, HasSubstr("has all that was done"));
}

TEST_F(CoordinatorLoss, AnotherSpecEndsWhatItDoesNotHaveAndAnAdoptedTaskIsWatched) {
  TrainAndKill();
  RealWorld world(2);
  BlockingWaiter waiter;
  LocalCluster::Options options;
  options.ps = 2;
  options.workers = 1;
  options.binary_directory = COHORT_BIN_DIR;
  options.state_directory = state;
  // As the coordinator chose them for two workers.
  options.worker_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2);
  options.orphan_timeout = absl::Seconds(60);
  const auto tasks = LocalCluster::Start(world.world(), waiter, options);
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const auto pids = (*tasks)->pids();
  ASSERT_EQ(pids.size(), 3u);
  EXPECT_EQ(pids.at(kPs0), seen[kPs0]);
  EXPECT_EQ(pids.at(kWorker0), seen[kWorker0]);
  EXPECT_TRUE(Lives(pids.at(TaskId{Role::kPs, 1})));
  EXPECT_EQ(AwaitOrphan(seen[kWorker1]), 0) << "not in the cluster any more";

  const std::string address = (*tasks)->Address(kWorker0);
  kill(seen[kWorker0], SIGKILL);
  EXPECT_EQ(AwaitOrphan(seen[kWorker0]), SIGKILL);
  pid_t now = 0;
  while (now == 0 || now == seen[kWorker0] || (*tasks)->Address(kWorker0) == "127.0.0.1:1") {
    std::this_thread::yield();
    now = (*tasks)->pids().at(kWorker0);
  }
  EXPECT_TRUE(Lives(now));
  EXPECT_NE((*tasks)->Address(kWorker0), address);
  (*tasks)->Stop(waiter, absl::Seconds(20));
  EXPECT_FALSE(Lives(now));
  EXPECT_EQ(AwaitOrphan(seen[kPs0]), 0);
}

TEST_F(CoordinatorLoss, TasksWithOtherFlagsAreReplaced) {
  TrainAndKill();
  const ProcessRun run = StartCoordinator(1, "50s")->Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const auto& [task, pid] : seen) {
    EXPECT_THAT(run.err, HasSubstr(absl::StrCat("event=leftover_stopped task=", task.ToString(),
                                                " pid=", pid, " cause=\"it was started with ")));
    EXPECT_EQ(AwaitOrphan(pid), 0) << task.ToString();
  }
}

}  // namespace
}  // namespace cohort
