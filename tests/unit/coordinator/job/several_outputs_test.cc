// What a job file says of a model with several outputs: losses, weights, metrics, labels.

#include <string>
#include <vector>

#include "coordinator/job/job_spec.h"
#include "coordinator/network/output_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x [N,2] to outputs a and b, layers of one unit.
json Model() {
  return json::parse(R"({"class_name": "Functional", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 2]},
     "inbound_nodes": []},
    {"class_name": "Dense", "config": {"name": "a", "units": 1}, "inbound_nodes": [[["x", 0, 0]]]},
    {"class_name": "Dense", "config": {"name": "b", "units": 1}, "inbound_nodes": [[["x", 0, 0]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0], ["b", 0, 0]]}})");
}

json Data() {
  return {{"train", {{"class_name", "IDX"}, {"config", {{"paths", {"x", "a", "b", "w"}}}}}}};
}

absl::StatusOr<JobSpec> Parse(const json& compile, const json& model = Model(),
                              const json& data = Data(), const json& fit = json::object()) {
  const json job = {{"model", model}, {"compile", compile}, {"data", data}, {"fit", fit}};
  return ParseJob(job.dump(), "job", {});
}

// Returns the outputs of a job, which is written and read again.
std::vector<OutputSpec> OutputsOf(const json& compile, const json& model = Model()) {
  const auto job = Parse(compile, model);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return std::vector<OutputSpec>(2);
  const auto again = ParseJob(JobToJson(*job), "written", {});
  EXPECT_TRUE(again.ok() && *again == *job) << again.status() << JobToJson(*job);
  EXPECT_EQ(job->compile.outputs.size(), 2u);
  EXPECT_EQ(job->compile.outputs[0].name, "a");
  EXPECT_EQ(job->compile.outputs[1].name, "b");
  return job->compile.outputs;
}

std::string ErrorOf(const json& compile, const json& data = Data(),
                    const json& fit = json::object()) {
  const auto job = Parse(compile, Model(), data, fit);
  EXPECT_FALSE(job.ok()) << compile;
  return std::string(job.status().message());
}

std::vector<std::string> Names(const OutputSpec& output) {
  std::vector<std::string> names;
  for (const MetricSpec& metric : output.metrics) names.push_back(metric.name);
  return names;
}

TEST(SeveralOutputsSection, OneLossIsThatOfEachOutput) {
  for (const OutputSpec& output : OutputsOf({{"loss", "mae"}, {"loss_weights", 0.5}})) {
    EXPECT_TRUE(output.has_loss);
    EXPECT_EQ(output.loss.class_name, "MeanAbsoluteError");
    EXPECT_EQ(output.loss_weight, 0.5);
  }
}

TEST(SeveralOutputsSection, LossesStandInAListOrUnderTheirOutputs) {
  const json huber = {{"class_name", "Huber"}, {"config", {{"delta", 2}}}};
  for (const json& loss : {json::array({"mse", huber}), json{{"b", huber}, {"a", "mse"}}}) {
    for (const json& weights : {json::array({1, 3}), json{{"b", 3}}, json::array({nullptr, 3})}) {
      const auto outputs = OutputsOf({{"loss", loss}, {"loss_weights", weights}});
      EXPECT_EQ(outputs[0].loss.class_name, "MeanSquaredError");
      EXPECT_EQ(outputs[1].loss.config.Number("delta"), 2);
      EXPECT_EQ(outputs[0].loss_weight, 1);
      EXPECT_EQ(outputs[1].loss_weight, 3);
    }
  }
}

TEST(SeveralOutputsSection, AnOutputMayHaveNoLoss) {
  for (const json& loss :
       {json::array({nullptr, "mse"}), json{{"b", "mse"}}, json{{"b", "mse"}, {"a", nullptr}}}) {
    const auto outputs = OutputsOf({{"loss", loss}});
    EXPECT_FALSE(outputs[0].has_loss);
    EXPECT_TRUE(outputs[1].has_loss);
    EXPECT_FALSE(outputs[0].reads_labels());
  }
  EXPECT_THAT(ErrorOf({{"loss", {nullptr, nullptr}}}), HasSubstr("gives no output a loss"));
}

TEST(SeveralOutputsSection, MetricsStandInAListOfListsOrUnderTheirOutputs) {
  for (const json& metrics : {json::parse(R"([["mae", "mape"], "mse"])"),
                              json::parse(R"({"b": "mse", "a": ["mae", "mape"]})")}) {
    const auto outputs =
        OutputsOf({{"loss", "mse"}, {"metrics", metrics}, {"weighted_metrics", {{"b", {"mae"}}}}});
    EXPECT_THAT(Names(outputs[0]), ElementsAre("mae", "mape"));
    EXPECT_THAT(Names(outputs[1]), ElementsAre("mse", "mae"));
    EXPECT_TRUE(outputs[1].metrics[1].weighted);
  }
}

// A plain list has one entry for each output in Keras 3, and is that of every output in Keras 2.
TEST(SeveralOutputsSection, APlainListOfMetricsIsReadAsItsKerasDoes) {
  const json compile = {{"loss", "mse"}, {"metrics", {"mae", "mape"}}};
  auto outputs = OutputsOf(compile);
  EXPECT_THAT(Names(outputs[0]), ElementsAre("mae"));
  EXPECT_THAT(Names(outputs[1]), ElementsAre("mape"));
  json model = Model();
  model["keras_version"] = "2.15.0";
  outputs = OutputsOf(compile, model);
  EXPECT_THAT(Names(outputs[0]), ElementsAre("mae", "mape"));
  EXPECT_THAT(Names(outputs[1]), ElementsAre("mae", "mape"));
}

TEST(SeveralOutputsSection, OutputsHaveTheNamesOfTheirLayersOrOfTheDict) {
  json model = Model();
  model["config"]["output_layers"] = json::parse(R"({"one": ["a", 0, 0], "two": ["b", 0, 0]})");
  auto job = Parse({{"loss", {{"two", "mse"}}}}, model);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(OutputNames(job->model), ElementsAre("one", "two"));
  model["config"]["layers"][2]["inbound_nodes"] = json::parse(R"([[["x", 0, 0]], [["x", 0, 0]]])");
  model["config"]["output_layers"] = json::parse(R"([["b", 1, 0], ["a", 0, 0], ["b", 0, 0]])");
  job = Parse({{"loss", {{"b_1", "mse"}}}}, model);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(OutputNames(job->model), ElementsAre("b", "a", "b_1")) << "as in Keras 2";
}

TEST(SeveralOutputsSection, WhatDoesNotFitIsNamedWithTheRemedy) {
  EXPECT_THAT(ErrorOf({{"loss", {{"c", "mse"}}}}),
              AllOf(HasSubstr("compile.loss: names the output 'c'"), HasSubstr("'a', 'b'")));
  EXPECT_THAT(
      ErrorOf({{"loss", {"mse"}}}),
      HasSubstr("compile.loss: has 1 entries, but the model has 2 outputs (a, b); give one"));
  EXPECT_THAT(ErrorOf({{"loss", "mse"}, {"metrics", {"mae"}}}),
              HasSubstr("compile.metrics: has 1 entries"));
  EXPECT_THAT(ErrorOf({{"loss", "mse"}, {"metrics", "mae"}}), HasSubstr("it must be a list"));
  EXPECT_THAT(ErrorOf({{"loss", {{"a", "mse"}, {"b", "msee"}}}}),
              HasSubstr("compile.loss.b: 'msee' is not a known loss"));
  EXPECT_THAT(ErrorOf({{"loss", "mse"}}, Data(), {{"class_weight", {{"0", 2}}}}),
              HasSubstr("fit.class_weight: is given for a model with 2 outputs"));
  // Output a_b with metric c and output a with metric b_c.
  json model = Model();
  model["config"]["layers"][2]["config"]["name"] = "a_b";
  model["config"]["output_layers"][1][0] = "a_b";
  const json named = {{"class_name", "MeanSquaredError"}, {"config", {{"name", "b_loss"}}}};
  const auto job = Parse({{"loss", "mse"}, {"metrics", {{"a", named}}}}, model);
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("two numbers would be reported as 'a_b_loss'"));
}

TEST(SeveralOutputsSection, LabelsAndWeightsAreThoseOfTheOutputs) {
  json data = Data();
  data["labels"] = {2, 1};
  data["sample_weight"] = {{"b", 3}};
  const auto job = Parse({{"loss", "mse"}}, Model(), data);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->data.labels.Of(0, "a"), 2u);
  EXPECT_EQ(job->data.labels.Of(1, "b"), 1u);
  EXPECT_EQ(job->data.sample_weight.Of(0, "a"), std::nullopt);
  EXPECT_EQ(job->data.sample_weight.Of(1, "b"), 3u);
  const auto again = ParseJob(JobToJson(*job), "written", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *job);
  const auto error = [](const char* key, const json& value) {
    json data = Data();
    data[key] = value;
    return ErrorOf({{"loss", {{"b", "mse"}}}}, data);
  };
  EXPECT_THAT(error("labels", {{"b", 4}}),
              HasSubstr("data.labels.b: is 4; it must be the number of an array"));
  EXPECT_THAT(error("labels", {{"c", 1}}),
              AllOf(HasSubstr("data.labels: names the output 'c'"), HasSubstr("'a', 'b'"),
                    HasSubstr("gives the output 'b' no labels")));
  EXPECT_THAT(error("labels", {1}), HasSubstr("data.labels: has 1 entries"));
  EXPECT_THAT(error("labels", json::object()), HasSubstr("data.labels: is empty"));
  EXPECT_THAT(error("sample_weight", {1, 2, 3}), HasSubstr("data.sample_weight: has 3 entries"));
}

TEST(SeveralOutputsSection, FilesBehindTheSecondAreTransformedByTheirNumbers) {
  json data = Data();
  data["pipeline"] = json::parse(R"([
    {"class_name": "Rescaling", "config": {"component": "2", "scale": 0.5}},
    {"class_name": "CategoryEncoding", "config": {"num_tokens": 3}}])");
  const auto job = Parse({{"loss", "mse"}}, Model(), data);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->data.pipeline.at(0).component, 2u);
  EXPECT_EQ(job->data.pipeline.at(1).component, 1u) << "y";
}

}  // namespace
}  // namespace cohort
