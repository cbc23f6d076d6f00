// Hosts as the kernel plays them, each in a network namespace of its own, on one bridge: two of
// them lose each other's frames, and everybody else reaches both.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
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
using testing::Not;

constexpr absl::Duration kPatience = absl::Minutes(4);
constexpr int kStepsPerEpoch = 100;
constexpr int kEpochs = 80;
// Long enough that a machine that stands still for a moment cuts off nobody.
constexpr int kLeaseMs = 4000;
// A link-layer address that no host has: frames to it are lost, and nobody is told.
constexpr char kNobody[] = "02:00:00:00:00:fe";

bool Ip(const std::string& words) {
  std::vector<std::string> arguments = absl::StrSplit(absl::StrCat("ip ", words), ' ');
  return RunProcess("/usr/bin/env", arguments, {}, kPatience).exit_code == 0;
}

class PartialPartition : public testing::Test {
 protected:
  void TearDown() override {
    tasks.clear();
    coordinator.reset();
    for (const std::string& host : hosts) Ip(absl::StrCat("netns del ", NamespaceOf(host)));
    Ip(absl::StrCat("netns del ", NamespaceOf("hub")));
  }

  // False where this machine cannot play them.
  bool MakeHosts(std::vector<std::string> names) {
    if (!Ip(absl::StrCat("netns add ", NamespaceOf("hub")))) return false;
    const std::string hub = NamespaceOf("hub");
    if (!Ip(absl::StrCat("-n ", hub, " link add hub type bridge"))) return false;
    Ip(absl::StrCat("-n ", hub, " link set hub up"));
    for (std::string& host : names) {
      if (!Ip(absl::StrCat("netns add ", NamespaceOf(host)))) return false;
      hosts.push_back(std::move(host));
      const std::string port = absl::StrCat("port", hosts.size());
      const std::string space = NamespaceOf(hosts.back());
      if (!Ip(absl::StrCat("link add ", port, " netns ", hub, " type veth peer name cable netns ",
                           space))) {
        return false;
      }
      Ip(absl::StrCat("-n ", hub, " link set ", port, " master hub up"));
      Ip(absl::StrCat("-n ", space, " addr add ", AddressOf(hosts.back()), "/24 dev cable"));
      Ip(absl::StrCat("-n ", space, " link set cable up"));
      Ip(absl::StrCat("-n ", space, " link set lo up"));
    }
    return true;
  }

  std::string NamespaceOf(const std::string& host) const {
    return absl::StrCat("cohort-", getpid(), "-", host);
  }
  std::string AddressOf(const std::string& host) const {
    const auto found = std::find(hosts.begin(), hosts.end(), host);
    return absl::StrCat("10.0.0.", 10 + (found - hosts.begin()));
  }

  void Cut(const std::string& one, const std::string& other) const {
    for (const auto& [from, to] : {std::pair(one, other), {other, one}}) {
      ASSERT_TRUE(Ip(absl::StrCat("-n ", NamespaceOf(from), " neigh replace ", AddressOf(to),
                                  " lladdr ", kNobody, " dev cable nud permanent")));
    }
  }
  void Heal(const std::string& one, const std::string& other) const {
    for (const auto& [from, to] : {std::pair(one, other), {other, one}}) {
      ASSERT_TRUE(
          Ip(absl::StrCat("-n ", NamespaceOf(from), " neigh del ", AddressOf(to), " dev cable")));
    }
  }

  // A host is named after its task: "worker1".
  RunningProcess& Start(const std::string& role, int index, std::vector<std::string> flags) {
    std::map<std::string, std::vector<std::string>> cluster;
    for (const std::string& host : hosts) {
      cluster[host.substr(0, host.find_first_of("0123456789"))].push_back(
          absl::StrCat(AddressOf(host), ":2222"));
    }
    const json config = {{"cluster", cluster}, {"task", {{"type", role}, {"index", index}}}};
    const std::string program = role == "chief" ? "coordinator" : role;
    flags.insert(flags.begin(), {"ip", "netns", "exec", NamespaceOf(absl::StrCat(role, index)),
                                 absl::StrCat(COHORT_BIN_DIR, "/", program)});
    auto process = std::make_unique<RunningProcess>(
        "/usr/bin/env", flags, std::map<std::string, std::string>{{"TF_CONFIG", config.dump()}});
    RunningProcess& started = *process;
    if (role == "chief") {
      coordinator = std::move(process);
    } else {
      tasks[absl::StrCat(role, index)] = std::move(process);
    }
    return started;
  }

  void StartAll(std::vector<std::string> sets) {
    for (const std::string& host : hosts) {
      const size_t digit = host.find_first_of("0123456789");
      const std::string role = host.substr(0, digit);
      if (role != "chief") Start(role, std::stoi(host.substr(digit)), {});
    }
    sets.push_back(absl::StrCat("fit.epochs=", kEpochs));
    sets.push_back(absl::StrCat("cluster.lease_timeout_ms=", kLeaseMs));
    Start("chief", 0, DigitsJob(32 * kStepsPerEpoch, sets));
  }

  // To its end, which is a good one, with every step, and nobody was suspected.
  std::string ErrOfWholeJob() {
    const ProcessRun run = coordinator->Wait(kPatience);
    EXPECT_EQ(run.exit_code, kExitOk) << run.err;
    if (run.exit_code == kExitOk) {
      EXPECT_EQ(json::parse(run.LastLine())["steps"], kEpochs * kStepsPerEpoch);
    }
    EXPECT_THAT(run.err, Not(HasSubstr("event=task_suspected")));
    return run.err;
  }

  std::vector<std::string> hosts;
  std::map<std::string, std::unique_ptr<RunningProcess>> tasks;  // by host
  std::unique_ptr<RunningProcess> coordinator;
};

TEST_F(PartialPartition, AWorkerThatDoesNotReachOneServerWaitsAndBothEndsSaySo) {
  if (!MakeHosts({"chief0", "ps0", "ps1", "worker0", "worker1"})) {
    GTEST_SKIP() << "needs a bridge between network namespaces";
  }
  StartAll({});
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  Cut("worker1", "ps0");
  ASSERT_TRUE(coordinator->ReadErrUntil("event=pair_broken one=worker:1 other=ps:0", kPatience))
      << coordinator->err();
  EXPECT_TRUE(tasks["worker1"]->ReadErrUntil("event=peer_unreached peer=ps:0", kPatience));
  EXPECT_TRUE(tasks["ps0"]->ReadErrUntil("event=unreached_by", kPatience));
  Heal("worker1", "ps0");
  EXPECT_TRUE(tasks["worker1"]->ReadErrUntil("event=peer_reached_again peer=ps:0", kPatience));
  EXPECT_TRUE(tasks["ps0"]->ReadErrUntil("event=reached_again_by", kPatience));
  EXPECT_THAT(ErrOfWholeJob(), HasSubstr("event=pair_healed one=worker:1 other=ps:0"));
}

TEST_F(PartialPartition, OfTwoWorkersThatDoNotReachEachOtherOneIsLeftOutAndComesBack) {
  if (!MakeHosts({"chief0", "worker0", "worker1", "worker2"})) {
    GTEST_SKIP() << "needs a bridge between network namespaces";
  }
  StartAll({"strategy.type=multi_worker_mirrored"});
  ASSERT_TRUE(coordinator->ReadErrUntil("Epoch 2/", kPatience)) << coordinator->err();
  Cut("worker1", "worker2");
  ASSERT_TRUE(coordinator->ReadErrUntil("event=worker_out_of_step", kPatience))
      << coordinator->err();
  ASSERT_TRUE(coordinator->ReadErrUntil("event=pair_broken", kPatience)) << coordinator->err();
  Heal("worker1", "worker2");
  EXPECT_TRUE(coordinator->ReadErrUntil("event=worker_in_step", kPatience)) << coordinator->err();
  EXPECT_THAT(ErrOfWholeJob(), HasSubstr("event=pair_healed one=worker:1 other=worker:2"));
}

}  // namespace
}  // namespace cohort
