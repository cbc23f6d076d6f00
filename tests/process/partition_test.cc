// Real daemons that meet through proxies, so that a test can cut one off without ending it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/daemon_cluster.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// How long anything may take that must happen.
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kSteps = 200;

class PartitionTest : public testing::TestWithParam<std::string> {
 protected:
  void StartCoordinator(int lease_ms) {
    coordinator = cluster.StartCoordinator(
        32 * kSteps, {"fit.epochs=1", absl::StrCat("cluster.lease_timeout_ms=", lease_ms)});
  }

  // Until this task has answered so much more than now.
  static bool AnswersMore(const DaemonCluster::Task& task, uint64_t bytes) {
    const FaultProxy& proxy = task.proxy;
    const uint64_t enough = proxy.counts().to_client.passed + bytes;
    return proxy.WaitUntil(
        [enough](const auto& counts) { return counts.to_client.passed >= enough; }, kPatience);
  }

  // The coordinator's log.
  std::string ExpectThatEachStepCountedOnce() {
    const ProcessRun run = coordinator->Wait(kPatience);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const json summary = json::parse(run.LastLine(), nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(summary.is_object()) << run.out;
    if (!summary.is_object()) return run.err;
    EXPECT_EQ(summary["steps"], kSteps);
    EXPECT_EQ(summary["ps_applied_slices"], kSteps * 6) << "six variables, one slice each";
    return run.err;
  }

  DaemonCluster cluster{1, 2, GetParam()};
  std::unique_ptr<RunningProcess> coordinator;  // last: it asks the others to end
};

INSTANTIATE_TEST_SUITE_P(Transports, PartitionTest, testing::Values("tcp", "grpc"),
                         [](const auto& info) { return info.param; });

// The other worker's progress is the clock: no machine is so slow that it takes the lease.
TEST_P(PartitionTest, AWorkerCutOffForLessThanTheLeaseIsNotLost) {
  cluster.StartAll();
  StartCoordinator(/*lease_ms=*/60000);
  ASSERT_TRUE(AnswersMore(cluster.worker(0), 2000)) << coordinator->err();
  FaultProxy& proxy = cluster.worker(0).proxy;
  proxy.SetFlow(ProxyFlow::kHold);
  ASSERT_TRUE(proxy.WaitUntil(
      [](const auto& counts) { return counts.to_server.held + counts.to_client.held > 0; },
      kPatience));
  ASSERT_TRUE(AnswersMore(cluster.worker(1), 1000)) << coordinator->err();
  proxy.SetFlow(ProxyFlow::kPass);
  const std::string log = ExpectThatEachStepCountedOnce();
  EXPECT_THAT(log, Not(HasSubstr("task_suspected")));
  EXPECT_THAT(log, Not(HasSubstr("task_gone")));
  EXPECT_THAT(log, Not(HasSubstr("closure_put_back")));
}

TEST_P(PartitionTest, AWorkerCutOffForLongerIsLostAndTheJobGoesOnWithoutIt) {
  ASSERT_TRUE(cluster.Start(cluster.ps(0)) && cluster.Start(cluster.worker(0)));
  StartCoordinator(/*lease_ms=*/500);
  // What the ps sends so much of are variables, and there is one worker that may pull them.
  ASSERT_TRUE(AnswersMore(cluster.ps(0), 4'000'000)) << coordinator->err();
  cluster.worker(0).proxy.SetFlow(ProxyFlow::kDrop);
  ASSERT_TRUE(cluster.Start(cluster.worker(1)));
  EXPECT_TRUE(coordinator->ReadErrUntil("event=task_suspected task=\"worker:0", kPatience))
      << coordinator->err();
  EXPECT_THAT(ExpectThatEachStepCountedOnce(), HasSubstr("event=closure_put_back"));
  EXPECT_GT(cluster.worker(0).proxy.counts().to_server.dropped, 0u);
}

}  // namespace
}  // namespace cohort
