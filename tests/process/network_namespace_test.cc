// Two hosts, as the kernel plays them: network namespaces with a cable between them that is pulled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/daemon_cluster.h"
#include "tests/support/run_process.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kStepsPerEpoch = 100;
// Long enough that a machine that stands still for a moment loses nobody, and so many epochs that
// training still goes on when the worker is back.
constexpr int kLeaseMs = 3000;
constexpr int kEpochs = 80;

// "ip" with these words.
bool Ip(const std::string& words) {
  std::vector<std::string> arguments = absl::StrSplit(absl::StrCat("ip ", words), ' ');
  return RunProcess("/usr/bin/env", arguments, {}, kPatience).exit_code == 0;
}

class NetworkNamespaces : public testing::Test {
 protected:
  void SetUp() override {
    if (!Ip(absl::StrCat("netns add ", here)) || !Ip(absl::StrCat("netns add ", there))) {
      GTEST_SKIP() << "needs network namespaces";
    }
    ASSERT_TRUE(Ip(
        absl::StrCat("link add cable netns ", here, " type veth peer name cable netns ", there)));
    for (const auto& [host, address] : {std::pair(here, "10.0.0.1/24"), {there, "10.0.0.2/24"}}) {
      ASSERT_TRUE(Ip(absl::StrCat("-n ", host, " addr add ", address, " dev cable")));
      ASSERT_TRUE(Ip(absl::StrCat("-n ", host, " link set cable up")));
      ASSERT_TRUE(Ip(absl::StrCat("-n ", host, " link set lo up")));
    }
  }
  void TearDown() override {
    tasks.clear();
    coordinator.reset();
    Ip(absl::StrCat("netns del ", here));
    Ip(absl::StrCat("netns del ", there));
  }

  std::unique_ptr<RunningProcess> Start(const std::string& host, const std::string& role, int index,
                                        std::vector<std::string> flags) {
    const json config = {{"cluster",
                          {{"chief", {"10.0.0.1:2221"}},
                           {"ps", {"10.0.0.1:2222"}},
                           {"worker", {"10.0.0.1:2223", "10.0.0.2:2222"}}}},
                         {"task", {{"type", role}, {"index", index}}}};
    const std::string program = role == "chief" ? "coordinator" : role;
    flags.insert(flags.begin(),
                 {"ip", "netns", "exec", host, absl::StrCat(COHORT_BIN_DIR, "/", program)});
    return std::make_unique<RunningProcess>(
        "/usr/bin/env", flags, std::map<std::string, std::string>{{"TF_CONFIG", config.dump()}});
  }

  const std::string here = absl::StrCat("cohort-", getpid(), "-here");
  const std::string there = absl::StrCat("cohort-", getpid(), "-there");
  std::vector<std::unique_ptr<RunningProcess>> tasks;
  std::unique_ptr<RunningProcess> coordinator;
};

TEST_F(NetworkNamespaces, AWorkerBehindAPulledCableIsLostAndTakenInAgain) {
  tasks.push_back(Start(here, "ps", 0, {}));
  tasks.push_back(Start(here, "worker", 0, {}));
  tasks.push_back(Start(there, "worker", 1, {}));
  coordinator =
      Start(here, "chief", 0,
            DigitsJob(32 * kStepsPerEpoch, {absl::StrCat("fit.epochs=", kEpochs),
                                            absl::StrCat("cluster.lease_timeout_ms=", kLeaseMs)}));
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  ASSERT_TRUE(Ip(absl::StrCat("-n ", there, " link set cable down")));
  ASSERT_TRUE(coordinator->ReadErrUntil("event=closure_put_back", kPatience)) << coordinator->err();
  ASSERT_TRUE(Ip(absl::StrCat("-n ", there, " link set cable up")));
  EXPECT_TRUE(coordinator->ReadErrUntil("event=task_attached task=\"worker:1", kPatience, 2))
      << coordinator->err();
  const ProcessRun run = coordinator->Wait(kPatience);
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_THAT(run.err, HasSubstr("event=task_suspected task=\"worker:1"));
  // Who is on this side of the cable was never lost.
  for (const std::string task : {"ps:0", "worker:0"}) {
    const std::vector<std::string> attached =
        absl::StrSplit(run.err, absl::StrCat("event=task_attached task=\"", task));
    EXPECT_EQ(attached.size(), 2) << run.err;
  }
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], kEpochs * kStepsPerEpoch);
  EXPECT_EQ(summary["ps_applied_slices"], kEpochs * kStepsPerEpoch * 6);
  for (const auto& task : tasks) EXPECT_EQ(task->Wait(kPatience).exit_code, kExitOk);
}

}  // namespace
}  // namespace cohort
