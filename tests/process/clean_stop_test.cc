// How jobs and their tasks end: by themselves, or asked to with SIGTERM.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/daemon_cluster.h"
#include "tests/support/stop_child.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kExamples = 640;
const char* const kOnce = "fit.epochs=1";
const char* const kEndless = "fit.epochs=1000000";

class CleanStop : public testing::Test {
 protected:
  // Nothing was open any more: else the exit code is another.
  void ExpectThatTheTasksEnd() {
    for (DaemonCluster::Task* const task : cluster.tasks()) {
      const ProcessRun run = task->process->Wait(kPatience);
      EXPECT_EQ(run.exit_code, kExitOk) << task->role << ":" << task->index << "\n" << run.err;
    }
  }

  DaemonCluster cluster{1, 2};
  std::unique_ptr<RunningProcess> coordinator;
};

TEST_F(CleanStop, TheEndOfAJobEndsItsTasks) {
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(kExamples, {kOnce});
  const ProcessRun run = coordinator->Wait(kPatience);
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  ExpectThatTheTasksEnd();
}

TEST_F(CleanStop, KeptTasksDoTheNextJob) {
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(kExamples, {kOnce}, {"--keep_tasks"});
  const ProcessRun first = coordinator->Wait(kPatience);
  EXPECT_EQ(first.exit_code, kExitOk) << first.err;
  coordinator = cluster.StartCoordinator(2 * kExamples, {kOnce, "name=next"});
  const ProcessRun run = coordinator->Wait(kPatience);
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 2 * kExamples / 32);
  EXPECT_THAT(run.err, HasSubstr("event=epoch_claimed epoch=2")) << "the ps is another one";
  ExpectThatTheTasksEnd();
}

TEST_F(CleanStop, AnInterruptedJobEndsItsTasks) {
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(kExamples, {kEndless});
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  coordinator->Signal(SIGTERM);
  const ProcessRun run = coordinator->Wait(kPatience);
  EXPECT_EQ(run.exit_code, kExitJobFailed);
  EXPECT_THAT(run.err, HasSubstr("interrupted by SIGTERM"));
  ExpectThatTheTasksEnd();
}

TEST_F(CleanStop, WhoWaitsForATaskEndsAtOnce) {
  ASSERT_TRUE(cluster.Start(cluster.worker(0)));
  coordinator = cluster.StartCoordinator(kExamples, {kOnce, "cluster.connect_timeout_ms=3600000"});
  ASSERT_TRUE(cluster.worker(0).proxy.WaitUntil(
      [](const auto& counts) { return counts.to_client.passed > 0; }, kPatience));
  coordinator->Signal(SIGTERM);
  const ProcessRun run = coordinator->Wait(kPatience);
  EXPECT_EQ(run.exit_code, kExitJobFailed) << run.err;
  EXPECT_THAT(run.err, HasSubstr("interrupted by SIGTERM"));
}

TEST_F(CleanStop, ATaskThatStandsStillHoldsTheCoordinatorForTheDrainTimeout) {
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(kExamples, {kEndless, "cluster.lease_timeout_ms=3600000"},
                                         {"--drain_timeout_s", "1"});
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  FaultProxy& proxy = cluster.ps(0).proxy;
  ASSERT_TRUE(StopChild(cluster.ps(0).process->pid()));
  // Between two epochs, nothing may be under way yet.
  const uint64_t before = proxy.counts().to_server.passed;
  ASSERT_TRUE(proxy.WaitUntil(
      [before](const auto& counts) { return counts.to_server.passed > before; }, kPatience));
  coordinator->Signal(SIGTERM);
  const ProcessRun run = coordinator->Wait(kPatience);
  EXPECT_EQ(run.exit_code, kExitDrainTimeout) << run.err;
  EXPECT_THAT(run.err, HasSubstr("event=drain_timeout waits_for="));
  cluster.ps(0).process->Signal(SIGCONT);
}

TEST_F(CleanStop, AWorkerDrainsAndTheJobGoesOnWithoutIt) {
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(10 * kExamples, {kOnce});
  ASSERT_TRUE(cluster.worker(0).proxy.WaitUntil(
      [](const auto& counts) { return counts.to_client.passed > 2000; }, kPatience));
  cluster.worker(0).process->Signal(SIGTERM);
  const ProcessRun run = coordinator->Wait(kPatience);
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 10 * kExamples / 32);
  EXPECT_EQ(json::parse(run.LastLine())["ps_applied_slices"], 10 * kExamples / 32 * 6);
  ExpectThatTheTasksEnd();
}

// There is no other checkpoint in an hour: after its end as a crash all 20 steps and more would run
// again.
TEST_F(CleanStop, AServerThatDrainsCostsNoClosureTwice) {
  const TempDirectory temp{"clean_stop"};
  cluster.StartAll();
  coordinator = cluster.StartCoordinator(
      kExamples, {"fit.epochs=20", absl::StrCat("recovery.directory=", temp / "recovery"),
                  "recovery.interval_ms=3600000"});
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  cluster.ps(0).process->Signal(SIGTERM);
  const ProcessRun drained = cluster.ps(0).process->Wait(kPatience);
  EXPECT_EQ(drained.exit_code, kExitOk) << drained.err;
  ASSERT_TRUE(cluster.Start(cluster.ps(0)));
  const ProcessRun run = coordinator->Wait(kPatience);
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 20 * kExamples / 32);
  EXPECT_THAT(run.err, HasSubstr("event=saved_before_leave"));
  EXPECT_THAT(run.err, HasSubstr("event=resumed epoch=2 replays=0"));
}

}  // namespace
}  // namespace cohort
