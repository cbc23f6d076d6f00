#include "tests/support/daemon_cluster.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

using nlohmann::json;

constexpr absl::Duration kPatience = absl::Minutes(2);

json Addresses(std::deque<DaemonCluster::Task>& tasks) {
  json addresses = json::array();
  for (DaemonCluster::Task& task : tasks) addresses.push_back(task.proxy.address());
  return addresses;
}

void Make(const std::string& role, int count, std::deque<DaemonCluster::Task>& tasks) {
  for (int i = 0; i < count; ++i) {
    DaemonCluster::Task& task = tasks.emplace_back();
    task.role = role;
    task.index = i;
  }
}

}  // namespace

DaemonCluster::DaemonCluster(int ps, int workers, std::string transport)
    : transport_(std::move(transport)) {
  Make("ps", ps, ps_);
  Make("worker", workers, workers_);
  // Nobody dials the chief.
  cluster_ = {{"chief", {"127.0.0.1:1"}}, {"ps", Addresses(ps_)}, {"worker", Addresses(workers_)}};
}

std::vector<DaemonCluster::Task*> DaemonCluster::tasks() {
  std::vector<Task*> tasks;
  for (std::deque<Task>* const some : {&ps_, &workers_}) {
    for (Task& task : *some) tasks.push_back(&task);
  }
  return tasks;
}

std::string DaemonCluster::Config(const std::string& role, int index) const {
  return json({{"cluster", cluster_}, {"task", {{"type", role}, {"index", index}}}}).dump();
}

bool DaemonCluster::Start(Task& task) {
  task.process = std::make_unique<RunningProcess>(
      absl::StrCat(COHORT_BIN_DIR, "/", task.role),
      std::vector<std::string>{"--bind_address", "127.0.0.1:0", "--transport", transport_},
      std::map<std::string, std::string>{{"TF_CONFIG", Config(task.role, task.index)}});
  // "event=serving address=ADDRESS incarnation=…": with what follows it the address is whole.
  const bool serves = task.process->ReadErrUntil(" incarnation=", kPatience);
  EXPECT_TRUE(serves) << task.process->err();
  if (!serves) return false;
  const std::string& log = task.process->err();
  const std::string before = "event=serving address=";
  const size_t begin = log.find(before) + before.size();
  task.proxy.SetTarget(log.substr(begin, log.find(' ', begin) - begin));
  return true;
}

void DaemonCluster::StartAll() {
  for (Task* const task : tasks()) {
    if (!Start(*task)) return;
  }
}

std::vector<std::string> DigitsJob(int examples, const std::vector<std::string>& sets,
                                   const std::string& transport) {
  const auto digits = [](const std::string& data, int seed, int count) {
    return absl::StrCat("data.", data, R"(={"class_name": "SyntheticDigits", "config": {"seed": )",
                        seed, R"(, "count": )", count, "}}");
  };
  const std::string job = absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json");
  std::vector<std::string> flags = {"--job",         job,   "--transport", transport,
                                    "--ctl_address", "none"};
  const auto set = [&flags](const std::string& field) {
    flags.insert(flags.end(), {"--set", field});
  };
  set(digits("train", 1, examples));
  set(digits("test", 2, 320));
  set("fit.batch_size=32");
  set("fit.validation_split=0");
  for (const std::string& field : sets) set(field);
  return flags;
}

std::unique_ptr<RunningProcess> DaemonCluster::StartCoordinator(
    int examples, const std::vector<std::string>& sets, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = DigitsJob(examples, sets, transport_);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return std::make_unique<RunningProcess>(
      absl::StrCat(COHORT_BIN_DIR, "/coordinator"), arguments,
      std::map<std::string, std::string>{{"TF_CONFIG", Config("chief", 0)}});
}

}  // namespace cohort
