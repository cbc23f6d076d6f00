// Losses and metrics in the forms that Keras writes, by output and by version.

#include <string>

#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json Model() {
  return {{"class_name", "Sequential"},
          {"config",
           {{"layers", {{{"class_name", "Dense"}, {"config", {{"name", "out"}, {"units", 3}}}}}}}}};
}

absl::StatusOr<JobSpec> Parse(const json& compile, const json& model = Model()) {
  const json job = {
      {"model", model}, {"compile", compile}, {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  return ParseJob(job.dump(), "job", {});
}

std::string ErrorOf(const json& compile) {
  const auto job = Parse(compile);
  EXPECT_FALSE(job.ok()) << compile;
  return std::string(job.status().message());
}

TEST(CompileForms, ALossStandsAloneInAListOrUnderItsOutput) {
  const json huber = {{"class_name", "Huber"}, {"config", {{"delta", 2}}}};
  for (const json& loss : {huber, json::array({huber}), json{{"out", huber}}}) {
    const auto job = Parse({{"loss", loss}, {"loss_weights", {0.5}}});
    ASSERT_TRUE(job.ok()) << job.status();
    const OutputSpec& output = job->compile.outputs.at(0);
    EXPECT_EQ(output.loss.class_name, "Huber");
    EXPECT_EQ(output.loss.config.Number("delta"), 2);
    EXPECT_EQ(output.loss_weight, 0.5);
  }
}

TEST(CompileForms, MetricsStandInAListAListOfListsOrUnderTheirOutput) {
  for (const json& metrics :
       {json::array({"mae", "auc"}), json::array({json::array({"mae", "auc"})}),
        json{{"out", {"mae", "auc"}}}}) {
    const auto job = Parse({{"loss", "mse"}, {"metrics", metrics}, {"weighted_metrics", {"mape"}}});
    ASSERT_TRUE(job.ok()) << job.status();
    const std::vector<MetricSpec>& read = job->compile.outputs.at(0).metrics;
    ASSERT_EQ(read.size(), 3u);
    EXPECT_EQ(read[0].name, "mae");
    EXPECT_EQ(read[1].class_name, "AUC");
    EXPECT_FALSE(read[1].weighted);
    EXPECT_TRUE(read[2].weighted);
    const auto again = ParseJob(JobToJson(*job), "written", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *job);
  }
}

TEST(CompileForms, EachNameOfALossIsTheSameLoss) {
  for (const char* name : {"mse", "MSE", "mean_squared_error", "MeanSquaredError"}) {
    const auto job = Parse({{"loss", name}});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->compile.outputs.at(0).loss.class_name, "MeanSquaredError") << name;
  }
}

// The version of the model's file decides, else Keras 2's key `fn`, else it is Keras 3's.
TEST(CompileForms, TheFileSaysWhoseFormulaCounts) {
  const json plain = {{"class_name", "BinaryCrossentropy"}, {"config", json::object()}};
  json of_keras2 = plain;
  of_keras2["config"]["fn"] = "binary_crossentropy";
  json model2 = Model();
  model2["keras_version"] = "2.15.0";
  json model3 = Model();
  model3["module"] = "keras";
  const auto version = [](const json& loss, const json& model) {
    const auto job = Parse({{"loss", loss}}, model);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return 0;
    const auto again = ParseJob(JobToJson(*job), "written", {});
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again.ok() && *again == *job);
    return job->compile.outputs.at(0).loss.keras;
  };
  EXPECT_EQ(version(plain, Model()), 3);
  EXPECT_EQ(version(of_keras2, Model()), 2);
  EXPECT_EQ(version("bce", model2), 2);
  EXPECT_EQ(version(of_keras2, model3), 3);
}

TEST(CompileForms, Keras2ReportsAMetricUnderTheNameThatWasGiven) {
  json model = Model();
  model["keras_version"] = "2.15.0";
  const auto job = Parse({{"loss", "mse"}, {"metrics", {"mae", "AUC"}}}, model);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->compile.outputs.at(0).metrics.at(0).name, "mae");
  EXPECT_EQ(job->compile.outputs.at(0).metrics.at(1).name, "auc");
}

TEST(CompileForms, WhatDoesNotFitIsNamedWithTheRemedy) {
  EXPECT_THAT(ErrorOf({{"loss", {{"head", "mse"}}}}),
              AllOf(HasSubstr("output 'head'"), HasSubstr("'out'")));
  EXPECT_THAT(ErrorOf({{"loss", {"mse", "mae"}}}),
              AllOf(HasSubstr("compile.loss: has 2 entries"), HasSubstr("1 output")));
  EXPECT_THAT(ErrorOf({{"loss", "mse"}, {"loss_weights", {-1}}}),
              HasSubstr("compile.loss_weights.0: is -1; it must be a number of at least 0"));
  EXPECT_THAT(ErrorOf({{"loss", "msee"}}), HasSubstr("'msee' is not a known loss"));
  const auto metric = [](const char* name, const json& config) {
    return json{{"loss", "mse"}, {"metrics", {{{"class_name", name}, {"config", config}}}}};
  };
  EXPECT_THAT(ErrorOf(metric("AUC", {{"curve", "RPC"}})),
              HasSubstr("compile.metrics.0.config.curve: is \"RPC\"; it must be one of 'ROC', "));
  EXPECT_THAT(ErrorOf(metric("MeanIoU", json::object())), HasSubstr("has no num_classes"));
  EXPECT_THAT(ErrorOf(metric("IoU", {{"num_classes", 3}, {"target_class_ids", {1, 3}}})),
              HasSubstr("target_class_ids 3 for 3 classes"));
  EXPECT_THAT(ErrorOf(metric("Precision", {{"top_k", 0}})),
              HasSubstr("config.top_k: is 0; it must be a whole number in [1, 1e+06], or null"));
  EXPECT_THAT(ErrorOf(metric("MeanTensor", json::object())),
              HasSubstr("'MeanTensor' is not a known metric"));
}

}  // namespace
}  // namespace cohort
