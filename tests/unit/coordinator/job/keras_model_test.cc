// The section `model` as {"keras": ...}: what Keras wrote, inline or in a file.

#include "coordinator/job/keras_model.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What Keras 3 writes of a compiled model.
json Model() {
  return json::parse(R"({
    "module": "keras", "class_name": "Sequential", "registered_name": null,
    "build_config": {"input_shape": [null, 784]},
    "config": {"name": "net", "trainable": true, "layers": [
      {"module": "keras.layers", "class_name": "InputLayer", "registered_name": null,
       "config": {"batch_shape": [null, 784], "dtype": "float32", "name": "x"}},
      {"module": "keras.layers", "class_name": "Dense", "registered_name": null,
       "config": {"name": "out", "units": 10,
         "kernel_initializer": {"module": "keras.initializers", "class_name": "GlorotUniform",
           "config": {"seed": null}, "registered_name": null, "shared_object_id": 7}}}]},
    "compile_config": {
      "optimizer": {"module": "keras.optimizers", "class_name": "Adam", "registered_name": null,
                    "config": {"name": "adam", "learning_rate": 0.25}},
      "loss": "sparse_categorical_crossentropy", "loss_weights": null, "metrics": ["accuracy"],
      "weighted_metrics": null, "run_eagerly": true, "steps_per_execution": 1,
      "jit_compile": true}})");
}

const json kCompile = {{"optimizer", "sgd"}, {"loss", "sparse_categorical_crossentropy"}};

// The files that a job may name.
using Files = std::map<std::string, KerasModelFile>;

KerasModelFile TextFile(const std::string& text) { return {.config = text}; }
KerasModelFile FileOf(const json& config) { return TextFile(config.dump()); }

absl::StatusOr<JobSpec> ParseText(const json& job, const Files& files) {
  const auto read = [&](const std::string& path) -> absl::StatusOr<KerasModelFile> {
    const auto found = files.find(path);
    if (found != files.end()) return found->second;
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  };
  return ParseJob(job.dump(), "job", {}, read);
}

// Parses a job with this section `model`; without `compile` if it is null.
absl::StatusOr<JobSpec> Parse(const json& model, const json& compile, const Files& files = {}) {
  return ParseText(
      {{"model", model}, {"compile", compile}, {"data", {{"train", {{"class_name", "MNIST"}}}}}},
      files);
}

std::string ErrorOf(const absl::StatusOr<JobSpec>& job) {
  EXPECT_FALSE(job.ok());
  return std::string(job.status().message());
}

TEST(KerasModel, InlineInAFileAndAsTheSectionItselfAreTheSameModel) {
  const auto plain = Parse(Model(), kCompile);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto is_same = [&](const absl::StatusOr<JobSpec>& job) {
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->model, plain->model);
    EXPECT_EQ(JobToJson(*job), JobToJson(*plain));
  };
  is_same(Parse({{"keras", Model()}}, kCompile));
  is_same(Parse({{"keras", "a.json"}}, kCompile, {{"a.json", FileOf(Model())}}));
  // json.dump of what to_json() returned writes a string.
  is_same(Parse({{"keras", "b.json"}}, kCompile, {{"b.json", FileOf(Model().dump())}}));
}

TEST(KerasModel, ErrorsSayWhereInTheFileTheyAre) {
  json model = Model();
  model["config"]["layers"][1]["config"]["units"] = 0;
  EXPECT_THAT(ErrorOf(Parse({{"keras", model}}, kCompile)),
              HasSubstr("job: model.keras.config.layers.1.config.units: is 0"));
  EXPECT_THAT(ErrorOf(Parse({{"keras", "a.json"}}, kCompile, {{"a.json", FileOf(model)}})),
              HasSubstr("job: model.keras[a.json].config.layers.1.config.units: is 0"));
}

TEST(KerasModel, AFileThatCannotBeReadHidesNoOtherError) {
  const json bad_compile = {{"optimizer", "sgdd"}, {"loss", "mse"}};
  const std::string missing = ErrorOf(Parse({{"keras", "none"}, {"kera", 1}}, bad_compile));
  EXPECT_THAT(missing, AllOf(HasSubstr("model.keras: none: no such file"), HasSubstr("kera"),
                             HasSubstr("'sgdd' is not a known optimizer")));
  EXPECT_THAT(ErrorOf(Parse({{"keras", "none"}}, nullptr)), Not(HasSubstr("compile")));
  for (const char* text : {"", "{", "[1]", "\"x\"", "{} {}"}) {
    EXPECT_THAT(ErrorOf(Parse({{"keras", "a"}}, kCompile, {{"a", TextFile(text)}})),
                HasSubstr("model.keras: a holds no model in Keras's JSON"))
        << text;
  }
  EXPECT_THAT(ErrorOf(Parse({{"keras", 3}}, kCompile)), HasSubstr("model.keras: is 3"));
  EXPECT_THAT(ErrorOf(Parse(json::object({{"keras", nullptr}}), kCompile)),
              HasSubstr("model.keras: is missing"));
  const json job = {{"model", {{"keras", "a"}}}, {"compile", kCompile}};
  EXPECT_THAT(ErrorOf(ParseJob(job.dump(), "job", {})), HasSubstr("no files are read here"));
}

TEST(KerasModel, AConfigurationThatIsTooLargeIsRefused) {
  const KerasModelFile large = TextFile(std::string(kModelConfigBytesMax + 1, ' '));
  EXPECT_THAT(ErrorOf(Parse({{"keras", "a"}}, kCompile, {{"a", large}})),
              HasSubstr(absl::StrCat("at most ", kModelConfigBytesMax)));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_THAT(ErrorOf(Parse({{"keras", "a"}}, kCompile, {{"a", TextFile(deep)}})),
              HasSubstr("levels deep"));
}

TEST(KerasModel, TheFileSaysItsVersionUnlessTheJobDoes) {
  json model = Model();
  const auto form = [&](const json& section, const std::string& beside) {
    KerasModelFile file = FileOf(model);
    file.keras_version = beside;
    const auto job = Parse(section, kCompile, {{"m", file}});
    EXPECT_TRUE(job.ok()) << job.status();
    return std::make_pair(absl::StrCat(job->model.keras.major, ".", job->model.keras.minor),
                          job->model.file_form.version_from);
  };
  using Said = std::pair<std::string, std::string>;
  EXPECT_EQ(form({{"keras", "m"}}, ""), Said("3.15", "module"));
  EXPECT_EQ(form({{"keras", "m"}}, "2.15.0"), Said("2.15", "keras_version"));
  EXPECT_EQ(form({{"keras", "m"}, {"keras_version", "2.9.0"}}, "2.15.0"),
            Said("2.9", "model.keras_version"));
  EXPECT_EQ(form({{"keras", model}, {"keras_version", "2.2.4-tf"}}, ""),
            Said("2.2", "model.keras_version"));
  model["keras_version"] = "2.13.1";
  EXPECT_EQ(form({{"keras", "m"}}, "2.15.0"), Said("2.13", "keras_version"));
  for (const char* wrong : {"1.2.2", "two", "2", "2.x", "-2.1"}) {
    EXPECT_THAT(ErrorOf(Parse({{"keras", model}, {"keras_version", wrong}}, kCompile)),
                HasSubstr("model.keras_version: is '"))
        << wrong;
  }
  model["keras_version"] = "1.2.2";
  EXPECT_THAT(ErrorOf(Parse({{"keras", model}}, kCompile)),
              HasSubstr("model.keras.keras_version: is \"1.2.2\"; it must be a version from 2.0"));
}

TEST(KerasModel, WhatCompileWasGivenIsTakenIfTheJobHasNoSection) {
  for (const json& section :
       {json::object({{"keras", Model()}}), json::object({{"keras", "m"}}), Model()}) {
    const auto taken = Parse(section, nullptr, {{"m", FileOf(Model())}});
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->compile.optimizer.class_name, "Adam");
    EXPECT_EQ(taken->compile.optimizer.learning_rate, 0.25);
    ASSERT_EQ(taken->compile.outputs[0].metrics.size(), 1u);
    EXPECT_FALSE(taken->model.file_form.leaves_compile);
    const auto own = Parse(section, kCompile, {{"m", FileOf(Model())}});
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(own->compile.optimizer.class_name, "SGD");
    EXPECT_TRUE(own->compile.outputs[0].metrics.empty()) << "the job's section counts as a whole";
    EXPECT_TRUE(own->model.file_form.leaves_compile);
  }
  json wrong = Model();
  wrong["compile_config"]["loss"] = "msee";
  EXPECT_THAT(ErrorOf(Parse({{"keras", "m"}}, nullptr, {{"m", FileOf(wrong)}})),
              HasSubstr("model.keras[m].compile_config.loss: 'msee' is not a known loss"));
}

TEST(KerasModel, AModelThatWasNotCompiledNeedsTheSection) {
  json model = Model();
  model["compile_config"] = json::object();
  EXPECT_THAT(ErrorOf(Parse({{"keras", "m"}}, nullptr, {{"m", FileOf(model)}})),
              HasSubstr("compile: is missing; it must be given, because 'm' does not say"));
  EXPECT_THAT(ErrorOf(Parse({{"keras", model}}, nullptr)), HasSubstr("compile: is missing"));
}

// What Keras 2.15 and Keras 2.2 put into the attribute training_config.
TEST(KerasModel, TheTrainingConfigOfAnH5FileIsTaken) {
  json model = Model();
  model.erase("compile_config");
  KerasModelFile file = FileOf(model);
  file.keras_version = "2.15.0";
  file.training_config = R"({"loss": {"class_name": "SparseCategoricalCrossentropy", "config": {
      "reduction": "auto", "name": "s", "from_logits": true, "ignore_class": null,
      "fn": "sparse_categorical_crossentropy"}},
    "metrics": [[{"class_name": "MeanMetricWrapper", "config": {"name": "accuracy",
      "dtype": "float32", "fn": "sparse_categorical_accuracy"}}]],
    "weighted_metrics": null, "loss_weights": null,
    "optimizer_config": {"class_name": "Custom>SGD", "config": {"name": "SGD",
      "weight_decay": null, "clipnorm": null, "global_clipnorm": null, "clipvalue": null,
      "use_ema": false, "ema_momentum": 0.99, "ema_overwrite_frequency": null,
      "jit_compile": false, "is_legacy_optimizer": false, "learning_rate": 0.5,
      "momentum": 0.9, "nesterov": false}}})";
  const auto now = Parse({{"keras", "m"}}, nullptr, {{"m", file}});
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(now->compile.optimizer.class_name, "SGD");
  EXPECT_EQ(now->compile.optimizer.parameters.at("momentum"), 0.9);
  ASSERT_EQ(now->compile.outputs[0].metrics.size(), 1u);
  EXPECT_EQ(now->compile.outputs[0].metrics[0].class_name, "SparseCategoricalAccuracy");
  EXPECT_EQ(now->compile.outputs[0].metrics[0].name, "accuracy");
  // The job's text has the whole of it.
  const auto again = ParseJob(JobToJson(*now), "again", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(JobToJson(*again), JobToJson(*now));

  file.keras_version = "2.2.4";
  file.training_config = R"({"optimizer_config": {"class_name": "Adam", "config": {"lr": 0.125,
      "beta_1": 0.9, "beta_2": 0.999, "decay": 0.0, "epsilon": 1e-07, "amsgrad": false}},
    "loss": "mse", "metrics": ["mae"], "sample_weight_mode": null, "loss_weights": null})";
  const auto old = Parse({{"keras", "m"}}, nullptr, {{"m", file}});
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->compile.optimizer.learning_rate, 0.125);

  file.training_config = "{";
  const std::string broken = ErrorOf(Parse({{"keras", "m"}}, nullptr, {{"m", file}}));
  EXPECT_THAT(broken, HasSubstr("model.keras[m].training_config"));
  EXPECT_THAT(broken, Not(HasSubstr("is missing")));
  EXPECT_TRUE(Parse({{"keras", "m"}}, kCompile, {{"m", file}}).ok()) << "the job has its own";
}

TEST(KerasModel, TheTrainingBeginsWithTheWeightsOfTheFile) {
  KerasModelFile file = FileOf(Model());
  file.has_weights = true;
  const auto init = [&](const json& init_from) {
    json job = {{"model", {{"keras", "m"}}},
                {"data", {{"train", {{"class_name", "MNIST"}}}}},
                {"checkpoint", {{"init_from", init_from}}}};
    const auto parsed = ParseText(job, {{"m", file}});
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->checkpoint.init_from : InitFromSpec();
  };
  EXPECT_EQ(init(nullptr).path, "m");
  EXPECT_EQ(init("other").path, "other");
  EXPECT_EQ(init("").path, "") << "none";
  const InitFromSpec options = init({{"weights_only", true}});
  EXPECT_EQ(options.path, "m");
  EXPECT_TRUE(options.weights_only);
  file.has_weights = false;
  EXPECT_EQ(init(nullptr).path, "");
}

TEST(KerasModel, LayersThatArePythonCodeAreNamedAllAtOnce) {
  const json model = json::parse(R"({"class_name": "Sequential", "keras_version": "2.15.0",
    "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 4], "name": "x"}},
      {"class_name": "Lambda", "module": "keras.layers",
       "config": {"name": "lam", "function": ["4wEAAA", null, null]}},
      {"class_name": "Gate", "module": "my.layers", "registered_name": "Gate",
       "config": {"name": "gate"}},
      {"class_name": "Custom>Twist", "config": {"name": "twist"}},
      {"class_name": "RotaryEmbedding", "module": "keras.layers",
       "registered_name": "keras_hub>RotaryEmbedding", "config": {"name": "rotary"}},
      {"class_name": "TimeDistributed", "config": {"name": "td", "layer":
       {"class_name": "Lambda", "config": {"name": "inner"}}}},
      {"class_name": "Mine", "config": {"name": "mine"}}]}})");
  const std::string error = ErrorOf(Parse({{"keras", model}}, kCompile));
  for (const char* text :
       {"model.keras.config.layers.1: layer 'lam' is a Lambda, whose Python code cannot travel in "
        "JSON",
        "layers.2: layer 'gate' is 'Gate' of the module 'my.layers'",
        "layers.3: layer 'twist' is the registered class 'Custom>Twist'",
        "layers.4: layer 'rotary' is the registered class 'keras_hub>RotaryEmbedding'",
        "layers.5.config.layer: layer 'inner' is a Lambda",
        "layers.6: layer 'mine': 'Mine' is not a known layer", "ONNX", "C++ API"}) {
    EXPECT_THAT(error, HasSubstr(text));
  }
  EXPECT_THAT(error, Not(HasSubstr("layers.2.module"))) << "one error for each layer";
}

TEST(KerasModel, ASubclassedModelIsPythonCode) {
  for (const char* text :
       {R"({"module": "my.models", "class_name": "Net", "registered_name": "Net", "config": {}})",
        R"({"class_name": "Net", "config": {}, "keras_version": "2.13.1"})",
        R"({"module": null, "class_name": "Custom>Net", "config": {}})"}) {
    const std::string error = ErrorOf(Parse({{"keras", json::parse(text)}}, kCompile));
    EXPECT_THAT(error,
                AllOf(HasSubstr("model.keras: the model is "), HasSubstr("Net'"),
                      HasSubstr("whose Python code cannot travel in JSON"), HasSubstr("ONNX")));
  }
  // In a file that nobody says Keras has written, a name may be misspelt.
  EXPECT_THAT(ErrorOf(Parse(json::parse(R"({"class_name": "Sequental", "config": {}})"), kCompile)),
              HasSubstr("the nearest is 'Sequential'"));
}

}  // namespace
}  // namespace cohort
