// coordinator --print_plan, in this process: nothing listens at the addresses that it is given.

#include <string>
#include <variant>
#include <vector>

#include "common/base/temporary_file.h"
#include "coordinator/daemon/coordinator_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kCluster[] =
    R"({"cluster": {"ps": {"1": "h1:1", "4": "h2:1"}, "worker": ["h3:1"]}})";

// 784 x 256 weights are 784 KiB; with RMSprop's slot twice as much.
json Job() {
  return json::parse(R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "Dense", "config": {"units": 256, "activation": "relu", "input_shape": [784]}},
      {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "rmsprop", "loss": "categorical_crossentropy"},
    "data": {"train": {"class_name": "MNIST"}, "pipeline": [
      {"class_name": "Flatten", "config": {"component": "x"}},
      {"class_name": "CategoryEncoding", "config": {"component": "y", "num_tokens": 10}}]}})");
}

absl::StatusOr<std::string> Print(const json& job, std::vector<std::string> arguments) {
  MemoryFileSystem files;
  EXPECT_TRUE(WriteFileAtomically(files, "/job.json", job.dump()).ok());
  arguments.insert(arguments.begin(), {"--job", "/job.json", "--print_plan"});
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TF_CONFIG") return kCluster;
    return std::nullopt;
  };
  const auto command = ParseCoordinatorCommandLine(arguments, environment, files);
  if (!command.ok()) return command.status();
  EXPECT_TRUE(std::holds_alternative<PrintAndExit>(*command));
  return std::get<PrintAndExit>(*command).text;
}

TEST(PrintPlan, TellsBytesPerServerAndWhy) {
  const absl::StatusOr<std::string> text = Print(Job(), {"--set", "strategy.placement=bytes"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("placement bytes: 4 variables in 5 pieces on 2 ps, 1628240 bytes"));
  EXPECT_THAT(*text, HasSubstr("dense/kernel/part_1  rows 392+392, 802816 bytes -> ps:4  "
                               "(no. 2 of 5 by bytes: ps:4 had the fewest bytes, 0)"));
}

TEST(PrintPlan, AsJsonForPrograms) {
  const absl::StatusOr<std::string> text = Print(Job(), {"--json"});
  ASSERT_TRUE(text.ok()) << text.status();
  const json plan = json::parse(*text);
  EXPECT_EQ(plan["placement"], "round_robin");
  EXPECT_EQ(plan["servers"][0], json::parse(R"({"ps":1,"pieces":2,"bytes":1626112,"load":0})"));
  EXPECT_EQ(plan["servers"][1], json::parse(R"({"ps":4,"pieces":2,"bytes":2128,"load":0})"));
  EXPECT_EQ(plan["bytes"], 1628240);
  EXPECT_EQ(plan["pieces"][1]["reason"], "piece 1 in creation order: 1 mod 2 = 1");
  EXPECT_NEAR(plan["max_over_mean"].get<double>(), 1626112.0 * 2 / 1628240, 1e-9);
}

TEST(PrintPlan, SaysWhatWouldHelp) {
  const absl::StatusOr<std::string> text = Print(Job(), {});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("dense/kernel alone has 1605632 bytes"));
}

TEST(PrintPlan, KnowsTheDataOfFilesByTheModel) {
  json job = Job();
  job["data"]["train"] = json::parse(R"({"class_name": "IDX", "config": {"paths": ["/x", "/y"]}})");
  EXPECT_TRUE(Print(job, {}).ok());
  job["model"]["config"]["layers"][0]["config"].erase("input_shape");
  EXPECT_THAT(std::string(Print(job, {}).status().message()), HasSubstr("input_shape"));
}

TEST(PrintPlan, ShowsReplicasAndTheWorkerThatHasTheVariables) {
  const std::vector<std::string> mirrored = {"--local", "worker=1",
                                             "--set",   "strategy.type=mirrored",
                                             "--set",   "strategy.devices=[\"cpu:0\",\"cpu:1\"]"};
  const absl::StatusOr<std::string> text = Print(Job(), mirrored);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("strategy mirrored: 2 replicas on cpu:0, cpu:1; 4 variables, "
                               "1628240 bytes"));
  EXPECT_THAT(*text, HasSubstr("1605632 bytes -> worker:0"));
  std::vector<std::string> as_json = mirrored;
  as_json.emplace_back("--json");
  const json plan = json::parse(Print(Job(), as_json).value_or("{}"));
  EXPECT_EQ(plan["replicas"], json::parse(R"(["cpu:0","cpu:1"])"));
  EXPECT_EQ(plan["servers"][0]["worker"], 0);
}

TEST(PrintPlan, SaysThatOnlyTheWorkersKnowAllTheirDevices) {
  const std::vector<std::string> all = {"--local", "worker=1",
                                        "--set",   "strategy.type=mirrored",
                                        "--set",   "strategy.cross_device_ops=nccl"};
  const absl::StatusOr<std::string> text = Print(Job(), all);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("with slots\nno devices are named, which means all of each worker"));
  std::vector<std::string> as_json = all;
  as_json.emplace_back("--json");
  const json plan = json::parse(Print(Job(), as_json).value_or("{}"));
  EXPECT_EQ(plan["replicas"], json::parse(R"(["cpu:0"])"));
  EXPECT_EQ(plan["notes"].size(), 1u);
}

// Before anything is started.
TEST(PrintPlan, AClusterThatTheStrategyCannotUseIsRefused) {
  const auto problem = [](std::vector<std::string> arguments) {
    return std::string(Print(Job(), std::move(arguments)).status().message());
  };
  EXPECT_THAT(problem({"--set", "strategy.type=mirrored"}), HasSubstr("TF_CONFIG: strategy"));
  EXPECT_THAT(problem({"--local", "worker=1"}), HasSubstr("--local: the cluster has no ps"));
  EXPECT_THAT(problem({"--local", "worker=2", "--set", "strategy.type=one_device"}),
              HasSubstr("--local: strategy 'one_device' trains in one worker"));
  EXPECT_THAT(problem({"--local", "worker=1", "--set", "strategy.type=mirrored", "--set",
                       "strategy.cross_device_ops=nccl", "--set", "strategy.devices=[\"cpu:0\"]"}),
              HasSubstr("/job.json: strategy.cross_device_ops is 'nccl'"));
}

TEST(PrintPlan, LocalTasksAreCounted) {
  const absl::StatusOr<std::string> text = Print(Job(), {"--local", "ps=3,worker=1"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("on 3 ps"));
}

}  // namespace
}  // namespace cohort
