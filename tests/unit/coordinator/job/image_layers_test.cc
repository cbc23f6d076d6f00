// The layers of image models: Keras 3's own form (tests/golden/keras/make_images.py), defaults, and
// what is wrong with others.

#include <fstream>
#include <string>
#include <vector>

#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<JobSpec> Parse(const json& model) {
  const json job = {{"model", model},
                    {"compile", {{"loss", "sparse_categorical_crossentropy"}}},
                    {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  return ParseJob(job.dump(), "job", {});
}

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

absl::StatusOr<JobSpec> ParseLayers(const std::vector<json>& layers) {
  return Parse({{"class_name", "Sequential"}, {"config", {{"layers", layers}}}});
}

std::string ErrorOf(const std::string& class_name, const json& config) {
  return std::string(ParseLayers({Layer(class_name, config)}).status().message());
}

TEST(ImageLayers, ATransposedConvolutionNamesWhatItDoesNotTake) {
  const json conv = {{"filters", 2}, {"kernel_size", 3}};
  const auto error = [&](const json& more) {
    json config = conv;
    config.update(more);
    return ErrorOf("Conv2DTranspose", config);
  };
  EXPECT_EQ(error(json::object()), "");
  EXPECT_THAT(error({{"strides", 2}, {"output_padding", 2}}),
              HasSubstr("output_padding: has 2, which must be less than the stride 2"));
  EXPECT_THAT(error({{"groups", 2}}), HasSubstr("groups"));
  EXPECT_THAT(error({{"padding", "causal"}}), HasSubstr("padding"));
  EXPECT_THAT(error({{"strides", 2}, {"dilation_rate", 2}}), HasSubstr("dilation_rate"));
}

TEST(ImageLayers, AnEquationHasOneOfThreeForms) {
  const auto error = [](const std::string& equation, const json& bias_axes = nullptr) {
    return ErrorOf("EinsumDense",
                   {{"equation", equation}, {"output_shape", 3}, {"bias_axes", bias_axes}});
  };
  EXPECT_EQ(error("ab, bc -> ac", "c"), "");
  EXPECT_EQ(error("...b,bc->...c"), "");
  EXPECT_EQ(error("ab...,bc->ac..."), "");
  for (const char* wrong : {"", "ab->ac", "ab,bc", "aab,bc->ac", "ab,bc->a1",
                            "...ab...,bc->...ac...", "...b,bc->c", "a.b,bc->ac"}) {
    EXPECT_THAT(error(wrong), HasSubstr("it must have one of the forms")) << wrong;
  }
  EXPECT_THAT(error("ab,bc->ca"), HasSubstr("the batch must be the first axis"));
  EXPECT_THAT(error("ab,ac->ac"), HasSubstr("the batch must be the first axis"));
  EXPECT_THAT(error("ab,bc->ad"), HasSubstr("has an output axis 'd'"));
  EXPECT_THAT(error("ab,bc->ac", "x"), HasSubstr("bias_axes: is 'x'"));
}

TEST(ImageLayers, WhatKerasSerialisesIsReadAndWrittenBack) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/keras/images.json");
  const json golden = json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_EQ(golden.at("cases").size(), 3u);
  for (const json& one : golden.at("cases")) {
    const auto job = Parse(one.at("model"));
    ASSERT_TRUE(job.ok()) << job.status();
    const auto again = ParseJob(JobToJson(*job), "again", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->model, job->model) << one.at("name");
  }
}

TEST(ImageLayers, DefaultsAndNamesAreKeras) {
  const auto job = ParseLayers(
      {Layer("Conv2D", {{"filters", 8}, {"kernel_size", 3}}),
       Layer("BatchNormalization", json::object()), Layer("MaxPooling2D", {{"pool_size", {3, 2}}}),
       Layer("Conv2D", {{"filters", 4}, {"kernel_size", {1, 5}}}),
       Layer("AveragePooling2D", json::object()), Layer("GlobalAveragePooling2D", json::object()),
       Layer("Reshape", {{"target_shape", {2, -1}}})});
  ASSERT_TRUE(job.ok()) << job.status();
  std::vector<std::string> names;
  for (const LayerSpec& layer : job->model.layers) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("conv2d", "batch_normalization", "max_pooling2d", "conv2d_1",
                                 "average_pooling2d", "global_average_pooling2d", "reshape"));
  const auto config = [&](size_t i) { return json::parse(job->model.layers[i].config); };
  EXPECT_THAT(config(0)["kernel_size"], ElementsAre(3, 3));
  EXPECT_THAT(config(0)["strides"], ElementsAre(1, 1));
  EXPECT_EQ(config(0)["padding"], "valid");
  EXPECT_EQ(config(0)["kernel_initializer"]["class_name"], "GlorotUniform");
  EXPECT_EQ(config(1)["momentum"], 0.99);
  EXPECT_EQ(config(1)["epsilon"], 1e-3);
  EXPECT_EQ(config(1)["moving_variance_initializer"]["class_name"], "Ones");
  EXPECT_THAT(config(2)["strides"], ElementsAre(3, 2));
  EXPECT_THAT(config(4)["pool_size"], ElementsAre(2, 2));
}

TEST(ImageLayers, WhatIsWrongIsNamedWithItsValue) {
  const json conv = {{"filters", 4}, {"kernel_size", 3}};
  const auto with = [&](const char* key, const json& value) {
    json config = conv;
    config[key] = value;
    return ErrorOf("Conv2D", config);
  };
  EXPECT_THAT(with("padding", "full"), HasSubstr("padding"));
  EXPECT_THAT(with("kernel_size", {1, 2, 3}),
              HasSubstr("kernel_size: is [1,2,3]; it must be a number, or one for each of 2 axes"));
  EXPECT_THAT(with("groups", 3), HasSubstr("groups: is 3, which does not divide 4 filters"));
  EXPECT_THAT(with("data_format", "channels"), HasSubstr("data_format: is \"channels\""));
  json both = conv;
  both["strides"] = 2;
  both["dilation_rate"] = 2;
  EXPECT_THAT(ErrorOf("Conv2D", both), HasSubstr("dilation_rate: stands beside strides"));
  EXPECT_THAT(ErrorOf("BatchNormalization", {{"momentum", 1.5}}), HasSubstr("momentum"));
  EXPECT_THAT(ErrorOf("BatchNormalization", {{"axis", {1, 2}}}), HasSubstr("axis: is [1,2]"));
  EXPECT_THAT(ErrorOf("Reshape", {{"target_shape", {-1, -1}}}),
              HasSubstr("target_shape: is [-1,-1]"));
  EXPECT_THAT(ErrorOf("Conv2D", {{"filters", 4}}), HasSubstr("kernel_size"));
}

}  // namespace
}  // namespace cohort
