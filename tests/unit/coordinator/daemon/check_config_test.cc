// coordinator --check_config, in this process: what would end the job later is said here.

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
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

constexpr char kGood[] = "the configuration is good\n";
constexpr char kModelFile[] = "/tmp/cohort-model-of-a-test.json";

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

// What is printed, "starts", or the refusal.
std::string Parse(const json& job, std::vector<std::string> arguments) {
  MemoryFileSystem files;
  EXPECT_TRUE(WriteFileAtomically(files, "/job.json", job.dump()).ok());
  EXPECT_TRUE(files.MakeDirectories("/tmp").ok());
  EXPECT_TRUE(WriteFileAtomically(files, kModelFile, Job()["model"].dump()).ok());
  arguments.insert(arguments.begin(), {"--job", "/job.json"});
  const Environment environment = [](const std::string&) { return std::nullopt; };
  const auto command = ParseCoordinatorCommandLine(arguments, environment, files);
  if (!command.ok()) return std::string(command.status().message());
  const auto* const printed = std::get_if<PrintAndExit>(&*command);
  return printed == nullptr ? "starts" : printed->text;
}

// What --check_config says. A start refuses the same, in the same words.
std::string Check(const json& job, std::vector<std::string> arguments) {
  arguments.emplace_back("--check_config");
  std::string checked = Parse(job, arguments);
  // So that nothing is made where the job would start.
  arguments.back() = "--state_dir=/tmp/of-no-job";
  const bool is_good = checked.find("the configuration is good") == 0;
  EXPECT_EQ(Parse(job, arguments), is_good ? "starts" : checked);
  return checked;
}

json& Units(json& job, int layer) {
  return job["model"]["config"]["layers"][static_cast<size_t>(layer)]["config"]["units"];
}

TEST(CheckConfig, AJobThatCanRunIsGood) {
  EXPECT_EQ(Check(Job(), {"--local", "ps=2,worker=2"}), kGood);
  EXPECT_EQ(Check(Job(), {"--local", "worker=1", "--set", "strategy.type=one_device"}), kGood);
  EXPECT_EQ(Check(Job(), {"--set", "export.onnx=/tmp/e.onnx"}), kGood);
}

// The machine of the workers has them, or not.
TEST(CheckConfig, DevicesThatOnlyTheWorkersKnowAreNamed) {
  const std::vector<std::string> local = {"--local", "worker=1", "--set"};
  const auto check = [&](std::vector<std::string> more) {
    more.insert(more.begin(), local.begin(), local.end());
    return Check(Job(), more);
  };
  EXPECT_EQ(check({R"(strategy={"type": "one_device", "device": "GPU:0"})"}),
            "the configuration is good; whether the workers have gpu:0 they say when the job "
            "starts\n");
  EXPECT_EQ(check({R"(strategy={"type": "mirrored", "devices": ["gpu:1", "gpu:0"]})"}),
            "the configuration is good; whether the workers have gpu:0, gpu:1 they say when the "
            "job starts\n");
  EXPECT_EQ(check({R"(strategy={"type": "one_device", "devices": ["gpu:1"]})"}), kGood)
      << "of another type";
}

TEST(CheckConfig, AModelMayBeInAFile) {
  const std::string in_file = absl::StrCat(R"(model={"keras": ")", kModelFile, R"("})");
  EXPECT_EQ(Check(Job(), {"--set", in_file}), kGood);
  const std::string refused = Check(
      Job(), {"--set", R"(model={"keras": "/none.json"})", "--set", "compile.loss=crossentropi"});
  EXPECT_THAT(refused, HasSubstr("model.keras: "));
  EXPECT_THAT(refused, HasSubstr("/none.json"));
  EXPECT_THAT(refused, HasSubstr("'crossentropi' is not a known loss")) << "all at once";
  // The job file itself is JSON, but holds no model.
  EXPECT_THAT(Check(Job(), {"--set", R"(model={"keras": "/job.json"})"}),
              HasSubstr("model.keras[/job.json]"));
  // An output may not overwrite what the job reads.
  EXPECT_THAT(Check(Job(), {"--set", in_file, "--set", absl::StrCat("export.onnx=", kModelFile)}),
              HasSubstr("model.keras"));
}

TEST(CheckConfig, AnExportThatCannotBeWrittenIsRefused) {
  const std::string refused = Check(Job(), {"--set", "export.onnx=/"});
  EXPECT_THAT(refused, HasSubstr("export.onnx"));
  EXPECT_THAT(refused, HasSubstr("is not a regular file"));
}

TEST(CheckConfig, PathsThatOnlyAShellExpandsAreRefused) {
  for (const char* key :
       {"checkpoint.directory", "checkpoint.restore", "recovery.directory", "export.onnx"}) {
    EXPECT_THAT(Check(Job(), {"--set", absl::StrCat(key, "=~/x")}),
                HasSubstr(absl::StrCat(key, ": '~/x' begins with ~")));
  }
}

TEST(CheckConfig, ARoleThatIsNamedTwiceIsRefused) {
  EXPECT_THAT(Check(Job(), {"--local", "ps=1,worker=1,worker=2"}),
              HasSubstr("--local: 'ps=1,worker=1,worker=2' names worker twice"));
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
  for (const char* type : {"parameter_server", "one_device", "mirrored", "central_storage"}) {
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

json Files(std::vector<std::string> paths) {
  return {{"class_name", "IDX"}, {"config", {{"paths", std::move(paths)}}}};
}

// Looks ids of files up in a table with a dynamic vocabulary.
json TableJob() {
  json job = Job();
  job["model"] = json::parse(R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 1],
     "dtype": "int32"}, "inbound_nodes": []},
    {"class_name": "Embedding", "config": {"name": "t", "output_dim": 4, "dynamic": {}},
     "inbound_nodes": [[["i", 0, 0]]]},
    {"class_name": "Flatten", "config": {"name": "f"}, "inbound_nodes": [[["t", 0, 0]]]},
    {"class_name": "Dense", "config": {"name": "o", "units": 4, "activation": "softmax"},
     "inbound_nodes": [[["f", 0, 0]]]}],
    "input_layers": ["i", 0, 0], "output_layers": ["o", 0, 0]}})");
  job["compile"]["loss"] = "sparse_categorical_crossentropy";
  job["data"] = {{"train", Files({"x.idx", "y.idx"})}};
  return job;
}

struct StrategyCase {
  const char* type;
  const char* cluster;
};

constexpr StrategyCase kStrategies[] = {{"parameter_server", "ps=2,worker=2"},
                                        {"multi_worker_mirrored", "worker=2"},
                                        {"mirrored", "worker=1"},
                                        {"central_storage", "worker=1"},
                                        {"one_device", "worker=1"}};

std::string CheckUnder(const StrategyCase& strategy, const json& job) {
  return Check(
      job, {"--local", strategy.cluster, "--set", std::string("strategy.type=") + strategy.type});
}

// Only the workers know whether files have rows of 9 numbers, and what shapes a model is given that
// declares none.
TEST(CheckConfig, WhatFilesHoldIsLeftToTheWorkers) {
  json job = Job();
  job["data"]["train"] = Files({"x.idx", "y.idx"});
  EXPECT_EQ(Check(job, {}), kGood);
  job["data"]["pipeline"].erase(1);
  Units(job, 1) = 9;
  EXPECT_EQ(Check(job, {}), kGood);
  job["compile"]["loss"] = "sparse_categorical_crossentropy";
  EXPECT_EQ(Check(job, {}), kGood);
  job["model"]["config"]["layers"][0]["config"].erase("input_shape");
  EXPECT_EQ(Check(job, {}), kGood);
}

TEST(CheckConfig, AJobThatNoFilesFitIsRefused) {
  json job = Job();
  job["data"]["train"] = Files({"x.idx", "y.idx"});
  Units(job, 1) = 9;
  EXPECT_THAT(Check(job, {}), HasSubstr("needs labels [N,9], but they are float32[-1,10]"));
  Units(job, 1) = 10;
  job["data"]["pipeline"][0]["config"]["component"] = "y";
  job["data"]["pipeline"][0]["class_name"] = "CategoryEncoding";
  job["data"]["pipeline"][0]["config"]["num_tokens"] = 10;
  EXPECT_THAT(Check(job, {}), HasSubstr("data.pipeline.1 (CategoryEncoding)"));

  json images = Job();
  images["data"]["train"] = Files({"x.idx", "y.idx"});
  images["model"]["config"]["layers"][0]["config"]["input_shape"] = {28, 28};
  EXPECT_THAT(Check(images, {}), HasSubstr("is given examples of shape [784]"));
}

// The labels of the outputs lie behind those of the inputs; what lacks some is refused before a
// task is asked for the data, also if only the data have the shape of the inputs.
TEST(CheckConfig, EachOfSeveralOutputsNeedsLabels) {
  json job = Job();
  job["model"] = json::parse(R"({"class_name": "Functional", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 4]},
     "inbound_nodes": []},
    {"class_name": "Dense", "config": {"name": "a", "units": 3}, "inbound_nodes": [[["x", 0, 0]]]},
    {"class_name": "Dense", "config": {"name": "b", "units": 1}, "inbound_nodes": [[["x", 0, 0]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0], ["b", 0, 0]]}})");
  job["compile"]["loss"] = {{"a", "sparse_categorical_crossentropy"}, {"b", "mse"}};
  job["data"] = {{"train", Files({"x.idx", "a.idx", "b.idx"})}};
  EXPECT_THAT(Check(job, {}), HasSubstr(kGood));
  job["data"] = {{"train", Files({"x.idx", "a.idx"})}};
  EXPECT_THAT(Check(job, {}), HasSubstr("the model has 1 inputs, and the data 2 components"));
  job["data"]["labels"] = {{"a", 1}, {"b", 1}};
  EXPECT_THAT(Check(job, {}), HasSubstr(kGood));
  job["data"].erase("labels");
  job["model"]["config"]["layers"][0]["config"]["batch_shape"] = {nullptr, nullptr};
  EXPECT_THAT(Check(job, {}), HasSubstr("data.train has 2 components, but the model has 1 inputs "
                                        "and 2 outputs with a loss or metrics"));
  job["compile"]["loss"].erase("b");
  EXPECT_THAT(Check(job, {}), HasSubstr(kGood));
}

TEST(CheckConfig, TooFewFilesForTheModelAreRefused) {
  json job = Job();
  job["data"] = {{"train", Files({"x.idx"})}};
  EXPECT_THAT(Check(job, {}), HasSubstr("training data has 1 components"));
  job["data"] = {{"train", Files({"x.idx", "y.idx"})}, {"test", Files({"x.idx"})}};
  EXPECT_THAT(Check(job, {}), HasSubstr("data.test has 1 components, and data.train 2"));
  job = Job();
  job["data"]["test"] = "SyntheticClickLog";
  EXPECT_THAT(Check(job, {}), HasSubstr("data.test has 28 components, and data.train 2"));
}

// Whoever waits for an hour in a queue of machines wants to know before.
TEST(CheckConfig, ADynamicTableUnderDenseUpdatesIsRefusedWhateverTheData) {
  const char* const refusal = "compile.optimizer: variable 't/embeddings' is a dynamic table";
  json with_shape = TableJob();
  json without_shape = Job();
  without_shape["data"] = with_shape["data"];
  without_shape["compile"] = with_shape["compile"];
  without_shape["model"]["config"]["layers"] = json::parse(R"([
    {"class_name": "Embedding", "config": {"name": "t", "output_dim": 4, "dynamic": {}}},
    {"class_name": "Flatten", "config": {}},
    {"class_name": "Dense", "config": {"units": 4, "activation": "softmax"}}])");
  for (json* const job : {&with_shape, &without_shape}) {
    for (const StrategyCase& strategy : kStrategies) {
      (*job)["compile"]["optimizer"] = {{"class_name", "Adam"}, {"config", json::object()}};
      EXPECT_THAT(CheckUnder(strategy, *job), HasSubstr(refusal)) << strategy.type;
      (*job)["compile"]["optimizer"]["config"]["sparse_updates"] = "lazy";
      EXPECT_EQ(CheckUnder(strategy, *job), kGood) << strategy.type;
      (*job)["compile"]["optimizer"] = "sgd";
      EXPECT_EQ(CheckUnder(strategy, *job), kGood) << strategy.type;
    }
  }
}

TEST(CheckConfig, WhatTheOptimizerAndTheMetricsNeedIsCheckedForFilesOfAnyShape) {
  json job = Job();
  job["data"] = {{"train", Files({"x.idx", "y.idx"})}};
  job["model"]["config"]["layers"][0]["config"].erase("input_shape");
  json named = job;
  named["compile"]["optimizer"] = {{"class_name", "Adam"},
                                   {"config", {{"sparse_updates", {{"dense_7/kernel", "lazy"}}}}}};
  EXPECT_THAT(Check(named, {}), HasSubstr("sparse_updates names 'dense_7/kernel'"));
  json metric = job;
  metric["compile"]["metrics"] = {"sparse_categorical_accuracy"};
  EXPECT_THAT(Check(metric, {}), HasSubstr("does not fit the labels of"));
  json fixed = job;
  fixed["model"]["config"]["layers"] = json::parse(R"([{"class_name": "Flatten", "config": {}}])");
  EXPECT_THAT(Check(fixed, {}), HasSubstr("nothing to train"));
}

// Several inputs, of which one is looked up: files have a component for each, and the labels.
TEST(CheckConfig, EachInputReadsAFileOfItsOwn) {
  json job = TableJob();
  json& config = job["model"]["config"];
  config["layers"].push_back(json::parse(
      R"({"class_name": "InputLayer", "config": {"name": "d", "batch_shape": [null, 3]},
          "inbound_nodes": []})"));
  config["layers"].push_back(json::parse(
      R"({"class_name": "Concatenate", "config": {"name": "c"},
          "inbound_nodes": [[["f", 0, 0], ["d", 0, 0]]]})"));
  config["layers"][3]["inbound_nodes"] = json::parse(R"([[["c", 0, 0]]])");
  config["input_layers"] = json::parse(R"([["i", 0, 0], ["d", 0, 0]])");
  EXPECT_THAT(Check(job, {}), HasSubstr("the model has 2 inputs, and the data 2 components"));
  job["data"]["train"] = Files({"i.idx", "d.idx", "y.idx"});
  EXPECT_EQ(Check(job, {}), kGood);
  config["layers"][0]["config"]["dtype"] = "float32";  // as Keras declares where nothing is said
  EXPECT_EQ(Check(job, {}), kGood);
  job["data"]["pipeline"] = json::parse(R"([{"class_name": "Rescaling", "config": {"scale": 2}}])");
  EXPECT_THAT(Check(job, {}), HasSubstr("ids are int32 or int64"));
}

// A Sequential model reads the one named column that has neither labels nor weights, wherever it
// is.
TEST(CheckConfig, ASequentialModelReadsTheColumnThatIsLeft) {
  json job = Job();
  job["model"]["config"]["layers"] = json::parse(R"([
      {"class_name": "InputLayer", "config": {"batch_shape": [null], "dtype": "int64"}},
      {"class_name": "Embedding", "config": {"input_dim": 9, "output_dim": 1}}])");
  job["compile"]["loss"] = "mse";
  job["data"] = json::parse(R"({"train": {"class_name": "TFRecord", "config": {"paths": ["a"],
      "features": [{"name": "label"}, {"name": "id", "dtype": "int64"}]}}})");
  EXPECT_EQ(Check(job, {}), kGood);
  json& features = job["data"]["train"]["config"]["features"];
  features.push_back({{"name", "more"}});
  EXPECT_THAT(Check(job, {}),
              HasSubstr("a Sequential model reads one column, and beside labels and sample_weight "
                        "the data have id, more; Drop the others"));
  job["data"]["sample_weight"] = "more";
  EXPECT_EQ(Check(job, {}), kGood);
  job["data"]["sample_weight"] = nullptr;
  job["data"]["pipeline"] =
      json::parse(R"([{"class_name": "Drop", "config": {"columns": ["more", "label"]}}])");
  job["data"]["labels"] = "id";  // an autoencoder's
  EXPECT_EQ(Check(job, {}), kGood);
}

// Files whose shapes only the workers know: what the model alone shows of its exports does not wait
// for them.
TEST(CheckConfig, AnExportThatTheModelRulesOutIsRefusedForFilesOfAnyShape) {
  json job = Job();
  job["data"] = {{"train", Files({"x.idx", "y.idx"})}};
  job["model"]["config"]["layers"] = json::parse(R"([
    {"class_name": "EmbeddingBag", "config": {"name": "bag", "input_dim": 9, "output_dim": 4}},
    {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}])");
  const std::string refusal = "export.keras: layer 'bag' is an EmbeddingBag, which Keras does not";
  for (const StrategyCase& strategy : kStrategies) {
    job["export"] = {{"keras", "/tmp/e.keras"}};
    EXPECT_THAT(CheckUnder(strategy, job), HasSubstr(refusal)) << strategy.type;
    job["export"] = {{"safetensors", "/tmp/e.safetensors"}, {"weights_h5", "/tmp/e.weights.h5"}};
    EXPECT_EQ(CheckUnder(strategy, job), kGood) << strategy.type;
  }
  // Of each rank of examples, one layer that takes only that.
  for (const char* const layer :
       {R"({"class_name": "Dense", "config": {"units": 4}})",
        R"({"class_name": "GRU", "config": {"units": 4}})",
        R"({"class_name": "Conv2D", "config": {"filters": 2, "kernel_size": 3}})",
        R"({"class_name": "Conv3D", "config": {"filters": 2, "kernel_size": 3}})"}) {
    job["model"]["config"]["layers"] = json::array();
    json& layers = job["model"]["config"]["layers"];
    layers.push_back(json::parse(layer));
    layers.push_back(json::parse(R"({"class_name": "Flatten", "config": {}})"));
    layers.push_back(json::parse(R"({"class_name": "Dense", "config": {"units": 10}})"));
    job["compile"]["loss"] = "mse";
    job["data"]["pipeline"] = json::array();
    job["export"] = {{"keras", "/tmp/e.keras"}, {"onnx", "/tmp/e.onnx"}};
    EXPECT_EQ(Check(job, {}), kGood) << layer;
  }
  // No shape that is guessed fits the target of this Reshape, so that nothing is said of it.
  job["model"]["config"]["layers"] = json::parse(R"([
    {"class_name": "Reshape", "config": {"target_shape": [7, 11]}},
    {"class_name": "Flatten", "config": {}},
    {"class_name": "Dense", "config": {"units": 10}}])");
  EXPECT_EQ(Check(job, {}), kGood);
}

// A place that cannot be written to, whatever the data are.
TEST(CheckConfig, AnOutputThatCannotBeWrittenIsRefusedForFilesOfAnyShape) {
  json job = Job();
  job["data"] = {{"train", Files({"x.idx", "y.idx"})}};
  job["model"]["config"]["layers"][0]["config"].erase("input_shape");
  for (const char* key : {"export.onnx", "checkpoint.directory", "recovery.directory"}) {
    EXPECT_THAT(Check(job, {"--set", absl::StrCat(key, "=/proc/cohort.onnx")}), HasSubstr(key));
  }
}

TEST(CheckConfig, ASplitThatLeavesNothingToTrainIsRefused) {
  EXPECT_THAT(Check(Job(), {"--set", "fit.validation_split=0.99"}),
              HasSubstr("no training examples are left of 64 after fit.validation_split = 0.99"));
}

// What the job would find out when its cluster is ready: the files lie on this machine.
TEST(CheckConfig, MnistThatIsIncompleteOrHasNoPlaceIsRefused) {
  json job = Job();
  const auto check = [&](const Environment& environment, size_t files_there) {
    MemoryFileSystem files;
    EXPECT_TRUE(files.MakeDirectories("/data/mnist").ok());
    const char* const names[] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                 "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
    for (size_t i = 0; i < files_there; ++i) {
      EXPECT_TRUE(WriteFileAtomically(files, JoinPath("/data/mnist", names[i]), "x").ok());
    }
    EXPECT_TRUE(WriteFileAtomically(files, "/job.json", job.dump()).ok());
    const auto command =
        ParseCoordinatorCommandLine({"--job", "/job.json", "--check_config"}, environment, files);
    if (!command.ok()) return std::string(command.status().message());
    return std::get<PrintAndExit>(*command).text;
  };
  const auto nowhere = [](const std::string&) { return std::nullopt; };
  const auto in_data = [](const std::string& name) {
    return name == "COHORT_DATA_DIR" ? std::optional<std::string>("/data") : std::nullopt;
  };
  const auto at_home = [](const std::string& name) {
    return name == "HOME" ? std::optional<std::string>("/home") : std::nullopt;
  };
  for (const bool synthetic : {false, true}) {
    job["data"]["train"] = json::parse(R"({"class_name": "MNIST", "config": {"split": "train"}})");
    if (synthetic) job["data"]["train"]["config"]["otherwise"] = "synthetic_digits";
    EXPECT_THAT(check(in_data, 3), HasSubstr("data: MNIST is incomplete: /data/mnist lacks t10k-"));
    EXPECT_EQ(check(in_data, 4), kGood);
    EXPECT_EQ(check(at_home, 0), kGood) << "it may be downloaded";
    if (synthetic) {
      EXPECT_EQ(check(nowhere, 0), kGood);
    } else {
      EXPECT_THAT(check(nowhere, 0), HasSubstr("data: no MNIST: COHORT_DATA_DIR is not set, and "
                                               "HOME is not set"));
    }
  }
}

TEST(CheckConfig, AClusterBelowItsLeastWorkersIsRefused) {
  EXPECT_THAT(Check(Job(), {"--local", "ps=1,worker=2", "--set", "cluster.min_workers=3"}),
              HasSubstr("--local: the cluster has 2 worker(s), but cluster.min_workers is 3"));
  EXPECT_THAT(Check(Job(), {"--local", "ps=1,worker=2", "--set", "cluster.max_workers=1"}),
              HasSubstr("--local: the cluster has 2 worker(s), but cluster.max_workers is 1"));
}

}  // namespace
}  // namespace cohort
