// Real daemons that meet through proxies, so that a test can cut one off without ending it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/run_process.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// How long anything may take that must happen.
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kSteps = 200;

// One ps, two workers and a coordinator. Every address in TF_CONFIG is a proxy's.
class PartitionTest : public testing::Test {
 protected:
  struct Task {
    FaultProxy proxy;
    std::unique_ptr<RunningProcess> process;
  };

  void Start(const std::string& lease_ms) {
    const json cluster = {{"ps", {ps.proxy.address()}},
                          {"worker", {workers[0].proxy.address(), workers[1].proxy.address()}}};
    StartTask(ps, cluster, "ps", 0);
    for (int i = 0; i < 2; ++i) StartTask(workers[i], cluster, "worker", i);
    const std::vector<std::string> sets = {
        // 200 batches of 32 in one epoch, and nothing held back for validation.
        R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 6400}})",
        R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 320}})",
        "fit.epochs=1", "fit.batch_size=32", "fit.validation_split=0",
        "cluster.lease_timeout_ms=" + lease_ms};
    std::vector<std::string> arguments = {
        "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"),
        "--transport", "tcp"};
    for (const std::string& set : sets) {
      arguments.emplace_back("--set");
      arguments.push_back(set);
    }
    coordinator = std::make_unique<RunningProcess>(
        absl::StrCat(COHORT_BIN_DIR, "/coordinator"), arguments,
        std::map<std::string, std::string>{{"TF_CONFIG", Config(cluster, "chief", 0)}});
  }

  static std::string Config(const json& cluster, const std::string& role, int index) {
    json config = {{"cluster", cluster}, {"task", {{"type", role}, {"index", index}}}};
    config["cluster"]["chief"] = {"127.0.0.1:1"};  // nobody dials it
    return config.dump();
  }

  void StartTask(Task& task, const json& cluster, const std::string& role, int index) {
    task.process = std::make_unique<RunningProcess>(
        absl::StrCat(COHORT_BIN_DIR, "/", role),
        std::vector<std::string>{"--bind_address", "127.0.0.1:0", "--transport", "tcp"},
        std::map<std::string, std::string>{{"TF_CONFIG", Config(cluster, role, index)}});
    // "event=serving address=ADDRESS incarnation=…": with what follows it the address is whole.
    ASSERT_TRUE(task.process->ReadErrUntil(" incarnation=", kPatience)) << task.process->err();
    const std::string& log = task.process->err();
    const std::string before = "event=serving address=";
    const size_t begin = log.find(before) + before.size();
    task.proxy.SetTarget(log.substr(begin, log.find(' ', begin) - begin));
  }

  // Until this worker has answered so much more than now.
  static bool AnswersMore(Task& worker, uint64_t bytes) {
    const uint64_t enough = worker.proxy.counts().to_client.passed + bytes;
    return worker.proxy.WaitUntil(
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

  Task ps;
  Task workers[2];
  std::unique_ptr<RunningProcess> coordinator;  // last: it asks the others to end
};

// The other worker's progress is the clock: no machine is so slow that it takes the lease.
TEST_F(PartitionTest, AWorkerCutOffForLessThanTheLeaseIsNotLost) {
  Start(/*lease_ms=*/"60000");
  ASSERT_TRUE(AnswersMore(workers[0], 2000)) << coordinator->err();
  workers[0].proxy.SetFlow(ProxyFlow::kHold);
  ASSERT_TRUE(workers[0].proxy.WaitUntil(
      [](const auto& counts) { return counts.to_server.held + counts.to_client.held > 0; },
      kPatience));
  ASSERT_TRUE(AnswersMore(workers[1], 1000)) << coordinator->err();
  workers[0].proxy.SetFlow(ProxyFlow::kPass);
  const std::string log = ExpectThatEachStepCountedOnce();
  EXPECT_THAT(log, Not(HasSubstr("task_suspected")));
  EXPECT_THAT(log, Not(HasSubstr("task_gone")));
  EXPECT_THAT(log, Not(HasSubstr("closure_put_back")));
}

TEST_F(PartitionTest, AWorkerCutOffForLongerIsLostAndTheJobGoesOnWithoutIt) {
  Start(/*lease_ms=*/"500");
  ASSERT_TRUE(AnswersMore(workers[0], 2000)) << coordinator->err();
  workers[0].proxy.SetFlow(ProxyFlow::kDrop);
  EXPECT_TRUE(coordinator->ReadErrUntil("event=task_suspected task=\"worker:0", kPatience))
      << coordinator->err();
  EXPECT_THAT(ExpectThatEachStepCountedOnce(), HasSubstr("event=closure_put_back"));
  EXPECT_GT(workers[0].proxy.counts().to_server.dropped, 0u);
}

}  // namespace
}  // namespace cohort
