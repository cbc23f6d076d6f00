// deploy/container/tf_config.sh against the program that reads its output.

#include <gmock/gmock.h>

#include "common/cluster/tf_config.h"
#include "tests/deploy/deploy_support.h"

namespace cohort {
namespace {

Output TfConfigOf(const std::string& variables) {
  return RunCommand(
      absl::StrCat("env -i PATH=\"$PATH\" ", variables, " ", DeployPath("container/tf_config.sh")));
}

constexpr char kCounts[] = "COHORT_PS_COUNT=2 COHORT_WORKER_COUNT=12 ";

TEST(TfConfigScript, PlaceFollowsFromTheHostName) {
  const Output output =
      TfConfigOf(absl::StrCat(kCounts, "COHORT_ROLE=worker COHORT_HOSTNAME=cohort-worker-10"));
  ASSERT_EQ(output.exit_code, 0) << output.text;
  const auto config = ParseTfConfig(output.text);
  ASSERT_TRUE(config.ok()) << config.status() << output.text;
  ASSERT_TRUE(config->task.has_value());
  EXPECT_EQ(config->task->ToString(), "worker:10");
  EXPECT_EQ(*config->cluster.Address(*config->task), "cohort-worker-10.cohort-worker:2222");
  EXPECT_EQ(config->cluster.NumTasks(Role::kPs), 2);
  EXPECT_EQ(config->cluster.NumTasks(Role::kWorker), 12);
}

TEST(TfConfigScript, NamesAndPortCanBeGiven) {
  const Output output = TfConfigOf(absl::StrCat(
      kCounts, "COHORT_ROLE=ps COHORT_HOSTNAME=a-b-1 COHORT_PS_SERVICE=a-b COHORT_PORT=7000"));
  const auto config = ParseTfConfig(output.text);
  ASSERT_TRUE(config.ok()) << config.status() << output.text;
  EXPECT_EQ(*config->cluster.Address(*config->task), "a-b-1.a-b:7000");
}

TEST(TfConfigScript, TheCoordinatorNeedsNoOrdinal) {
  const Output output =
      TfConfigOf(absl::StrCat(kCounts, "COHORT_ROLE=chief COHORT_HOSTNAME=cohort-coordinator-x7f"));
  const auto config = ParseTfConfig(output.text);
  ASSERT_TRUE(config.ok()) << config.status() << output.text;
  EXPECT_EQ(config->task->ToString(), "chief:0");
}

TEST(TfConfigScript, WithoutPsTheWorkersAreTheCluster) {
  const std::string counts = "COHORT_PS_COUNT=0 COHORT_WORKER_COUNT=3 ";
  const auto worker =
      ParseTfConfig(TfConfigOf(counts + "COHORT_ROLE=worker COHORT_HOSTNAME=cohort-worker-2").text);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->task->ToString(), "worker:2");
  EXPECT_EQ(worker->cluster.tasks().size(), 3u);
  const auto coordinator = ParseTfConfig(TfConfigOf(counts + "COHORT_ROLE=chief").text);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_FALSE(coordinator->task.has_value());
  EXPECT_EQ(coordinator->cluster.tasks(), worker->cluster.tasks());
}

TEST(TfConfigScript, WhatIsWrongIsNamed) {
  struct Case {
    std::string variables, text;
  };
  const std::string ps = absl::StrCat(kCounts, "COHORT_ROLE=ps COHORT_HOSTNAME=");
  for (const Case& wrong : std::vector<Case>{
           {"COHORT_ROLE=ps COHORT_WORKER_COUNT=1 COHORT_HOSTNAME=ps-0", "COHORT_PS_COUNT"},
           {"COHORT_ROLE=ps COHORT_PS_COUNT=2 COHORT_WORKER_COUNT=x", "COHORT_WORKER_COUNT is 'x'"},
           {"COHORT_ROLE=ps COHORT_PS_COUNT=0 COHORT_WORKER_COUNT=1", "COHORT_PS_COUNT is '0'"},
           {absl::StrCat(kCounts, "COHORT_HOSTNAME=ps-0"), "COHORT_ROLE"},
           {absl::StrCat(kCounts, "COHORT_ROLE=king"), "'king'"},
           {absl::StrCat(ps, "localhost"), "'localhost'"},
           {absl::StrCat(ps, "ps-"), "'ps-'"},
           {absl::StrCat(ps, "ps-01"), "'ps-01'"},
           {absl::StrCat(ps, "ps-2"), "beyond the 2 ps tasks"}}) {
    const Output output = TfConfigOf(wrong.variables);
    EXPECT_EQ(output.exit_code, 2) << wrong.variables;
    EXPECT_THAT(output.text, testing::HasSubstr(wrong.text));
    EXPECT_THAT(output.text, testing::StartsWith("error: "));
  }
}

}  // namespace
}  // namespace cohort
