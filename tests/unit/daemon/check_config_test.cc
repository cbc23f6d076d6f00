// coordinator --check_config, in this process: what would end the job later is said here.

#include <string>
#include <variant>
#include <vector>

#include "common/base/memory_file_system.h"
#include "coordinator/daemon/coordinator_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kGood[] = "the configuration is good\n";

json Job() {
  return json::parse(R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "Dense", "config": {"units": 16, "activation": "relu", "input_shape": [784]}},
      {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "categorical_crossentropy"},
    "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 64}}, "pipeline": [
      {"class_name": "Flatten", "config": {"component": "x"}},
      {"class_name": "CategoryEncoding", "config": {"component": "y", "num_tokens": 10}}]}})");
}

// What is printed, or the refusal.
std::string Check(const json& job, std::vector<std::string> arguments) {
  MemoryFileSystem files;
  EXPECT_TRUE(WriteFileAtomically(files, "/job.json", job.dump()).ok());
  arguments.insert(arguments.begin(), {"--job", "/job.json", "--check_config"});
  const Environment environment = [](const std::string&) { return std::nullopt; };
  const auto command = ParseCoordinatorCommandLine(arguments, environment, files);
  if (!command.ok()) return std::string(command.status().message());
  return std::get<PrintAndExit>(*command).text;
}

json& Units(json& job, int layer) {
  return job["model"]["config"]["layers"][static_cast<size_t>(layer)]["config"]["units"];
}

TEST(CheckConfig, AJobThatCanRunIsGood) {
  EXPECT_EQ(Check(Job(), {"--local", "ps=2,worker=2"}), kGood);
  EXPECT_EQ(Check(Job(), {"--local", "worker=1", "--set", "strategy.type=one_device"}), kGood);
  EXPECT_EQ(Check(Job(), {"--set", "export.onnx=/tmp/e.onnx"}), kGood);
}

// Axis 0 of a convolution's kernel is its height.
TEST(CheckConfig, ARowThatIsTooLargeToTravelIsRefused) {
  json job = Job();
  job["model"]["config"]["layers"] = json::parse(R"([
    {"class_name": "Reshape", "config": {"target_shape": [28, 28, 1], "input_shape": [28, 28]}},
    {"class_name": "Conv2D", "config": {"filters": 16384, "kernel_size": 1}},
    {"class_name": "Conv2D", "config": {"filters": 17000, "kernel_size": 1}},
    {"class_name": "Flatten", "config": {}},
    {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}])");
  job["data"]["pipeline"].erase(0);
  for (const char* type : {"parameter_server", "one_device", "mirrored"}) {
    EXPECT_THAT(Check(job, {"--set", std::string("strategy.type=") + type}),
                HasSubstr("'conv2d_1/kernel': a row of it has 1114112000 bytes, and at most"))
        << type;
  }
}

TEST(CheckConfig, VariablesThatOneMachineHasNoMemoryForAreRefused) {
  json job = Job();
  // 300 matrices of 8 GB are more than any machine that runs this has.
  Units(job, 0) = 46000;
  json& layers = job["model"]["config"]["layers"];
  json square = layers[0];
  square["config"].erase("input_shape");
  for (int i = 0; i < 300; ++i) layers.insert(layers.begin() + 1, square);
  const std::string refused = Check(job, {"--local", "ps=1,worker=1"});
  EXPECT_THAT(refused, HasSubstr("ps:0 needs 2539401"));
  EXPECT_THAT(refused, HasSubstr(" bytes of memory for its variables and their slots"));
  EXPECT_THAT(Check(job, {"--local", "worker=1", "--set", "strategy.type=one_device"}),
              HasSubstr("worker:0 needs 2539401"));
}

TEST(CheckConfig, AModelThatDoesNotFitItsLabelsIsRefused) {
  json job = Job();
  Units(job, 1) = 9;
  EXPECT_THAT(Check(job, {}), HasSubstr("/job.json: "));
}

// Only the workers know the labels of files: a guess that fails says nothing.
TEST(CheckConfig, WhatFilesHoldIsLeftToTheWorkers) {
  json job = Job();
  Units(job, 1) = 9;
  job["data"]["train"] =
      json::parse(R"({"class_name": "IDX", "config": {"paths": ["x.idx", "y.idx"]}})");
  EXPECT_EQ(Check(job, {}), kGood);
}

TEST(CheckConfig, ASplitThatLeavesNothingToTrainIsRefused) {
  EXPECT_THAT(Check(Job(), {"--set", "fit.validation_split=0.99"}),
              HasSubstr("no training examples are left of 64 after fit.validation_split = 0.99"));
}

TEST(CheckConfig, AClusterBelowItsLeastWorkersIsRefused) {
  EXPECT_THAT(Check(Job(), {"--local", "ps=1,worker=2", "--set", "cluster.min_workers=3"}),
              HasSubstr("--local: the cluster has 2 worker(s), but cluster.min_workers is 3"));
  EXPECT_THAT(Check(Job(), {"--local", "ps=1,worker=2", "--set", "cluster.max_workers=1"}),
              HasSubstr("--local: the cluster has 2 worker(s), but cluster.max_workers is 1"));
}

}  // namespace
}  // namespace cohort
