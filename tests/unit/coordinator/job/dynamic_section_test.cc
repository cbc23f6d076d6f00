// `dynamic` of an embedding: its fields, defaults and limits, and that it is written as it was
// read.

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

absl::StatusOr<JobSpec> Parse(const json& config, const json& more = json::object()) {
  json job = {{"model",
               {{"class_name", "Sequential"},
                {"config",
                 {{"layers",
                   {{{"class_name", "EmbeddingBag"}, {"config", config}},
                    {{"class_name", "Dense"}, {"config", {{"units", 2}}}}}}}}}},
              {"compile", {{"loss", "sparse_categorical_crossentropy"}}},
              {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  job.update(more);
  return ParseJob(job.dump(), "job", {});
}

TEST(DynamicSection, HasDefaultsAndEveryFieldAndIsWrittenAsItWasRead) {
  const json all = {{"admit_after", 3},    {"admit_probability", 0.5},
                    {"ttl_seconds", 90.5}, {"max_bytes_per_ps", int64_t{1} << 33},
                    {"evict", "lfu"},      {"dtype", "bfloat16"}};
  for (const json& dynamic : {json::object(), all}) {
    const auto job = Parse({{"output_dim", 4}, {"dynamic", dynamic}});
    ASSERT_TRUE(job.ok()) << job.status();
    const DynamicTableSpec expected =
        dynamic.empty() ? DynamicTableSpec()
                        : DynamicTableSpec{3, 0.5, 90.5, int64_t{1} << 33, "lfu", DType::kBfloat16};
    ASSERT_NE(job->model.layers[0].layer->dynamic_table(), nullptr);
    EXPECT_EQ(*job->model.layers[0].layer->dynamic_table(), expected);
    const auto again = ParseJob(JobToJson(*job), "again", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->model, job->model);
  }
  EXPECT_EQ(Parse({{"input_dim", 9}, {"output_dim", 4}})->model.layers[0].layer->dynamic_table(),
            nullptr);
}

TEST(DynamicSection, ErrorsNameTheFieldTheValueAndWhatItMayBe) {
  const struct {
    json dynamic;
    const char* path;
    const char* message;
  } cases[] = {
      {{{"admit_after", 201}}, "dynamic.admit_after", "is 201"},
      {{{"admit_probability", 0}}, "dynamic.admit_probability", "is 0"},
      {{{"ttl_seconds", 0}}, "dynamic.ttl_seconds", "is 0"},
      {{{"ttl_seconds", 2e8}}, "dynamic.ttl_seconds", "1e+08"},
      {{{"max_bytes_per_ps", 1000}}, "dynamic.max_bytes_per_ps", "8388608"},
      {{{"evict", "fifo"}}, "dynamic.evict", "'lru'"},
      {{{"dtype", "int8"}}, "dynamic.dtype", "'float16'"},
      {{{"ttl", 5}}, "dynamic.ttl", "ttl_seconds"},
      {7, "dynamic", "is 7"},
  };
  for (const auto& c : cases) {
    const auto job = Parse({{"output_dim", 4}, {"dynamic", c.dynamic}});
    ASSERT_FALSE(job.ok()) << c.dynamic;
    EXPECT_THAT(std::string(job.status().message()),
                AllOf(HasSubstr(c.path), HasSubstr(c.message)));
  }
}

TEST(DynamicSection, WhatATableWithoutRowsCannotHaveIsRefused) {
  const json table = {{"output_dim", 4}, {"dynamic", json::object()}};
  json config = table;
  config["input_dim"] = 9;
  EXPECT_THAT(std::string(Parse(config).status().message()), HasSubstr("stands beside input_dim"));
  config = table;
  config["embeddings_initializer"] = "glorot_uniform";
  EXPECT_THAT(
      std::string(Parse(config).status().message()),
      AllOf(HasSubstr("embeddings_initializer: is GlorotUniform"), HasSubstr("use RandomUniform")));
  config = table;
  config["output_dim"] = 4097;
  EXPECT_THAT(std::string(Parse(config).status().message()), HasSubstr("4096"));
  EXPECT_THAT(std::string(Parse(table, {{"export", {{"onnx", "model.onnx"}}}}).status().message()),
              AllOf(HasSubstr("export.onnx: is 'model.onnx'"), HasSubstr("leave it out")));
  EXPECT_THAT(std::string(Parse({{"output_dim", 4}}).status().message()), HasSubstr("input_dim"));
}

// No file but a checkpoint has such a table, also if a model within the model has it.
TEST(DynamicSection, OfANestedModelIsNotExportedEither) {
  const json table = {{"class_name", "EmbeddingBag"},
                      {"config", {{"output_dim", 4}, {"dynamic", json::object()}}}};
  json model = {{"class_name", "Sequential"}, {"config", {{"layers", {table}}}}};
  model = {{"class_name", "Sequential"}, {"config", {{"name", "tower"}, {"layers", {model}}}}};
  model = {{"class_name", "Sequential"}, {"config", {{"layers", {model}}}}};
  for (const char* key : {"onnx", "keras", "weights_h5", "safetensors", "tf_checkpoint"}) {
    const std::string name =
        key == std::string("weights_h5") ? "m.weights.h5" : absl::StrCat("m.", key);
    const auto job = Parse({{"output_dim", 4}, {"dynamic", json::object()}},
                           {{"model", model}, {"export", {{key, name}}}});
    EXPECT_THAT(std::string(job.status().message()),
                AllOf(HasSubstr(absl::StrCat("export.", key)), HasSubstr("layer 'tower'"),
                      HasSubstr("has a dynamic table")));
  }
}

}  // namespace
}  // namespace cohort
