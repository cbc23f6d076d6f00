// Keras's dtype policies: which nodes of a train step compute products in bfloat16.

#include "common/program/product_precision.h"
#include "common/program/program.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The forms in which Keras 3, tf.keras and a person write a policy.
json KerasForm(const char* name) {
  return {{"module", "keras"}, {"class_name", "DTypePolicy"}, {"config", {{"name", name}}}};
}
json TfKerasForm(const char* name) {
  return {{"class_name", "Policy"}, {"config", {{"name", name}, {"loss_scale", nullptr}}}};
}

json Dense(const json& dtype, const char* name) {
  json config = {{"name", name}, {"units", 8}};
  if (!dtype.is_null()) config["dtype"] = dtype;
  return {{"class_name", "Dense"}, {"config", config}};
}

json Sequential(const json& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
}

absl::StatusOr<JobSpec> JobOf(const json& model) {
  return MakeJob(model, "sgd", "mean_squared_error", json::array());
}

int MarkedNodes(const JobSpec& job, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  const auto programs =
      BuildPrograms(job, Batch(Component(DType::kFloat32, x), Component(DType::kFloat32, y)));
  EXPECT_TRUE(programs.ok()) << programs.status();
  if (!programs.ok()) return -1;
  const auto model = LoadProgram(programs->train_step);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? CountBfloat16Products(model->graph()) : -1;
}

TEST(Policy, OfALayerCountsForItsProductsAndTheirGradients) {
  const auto job =
      JobOf(Sequential(json::array({Dense(KerasForm("mixed_bfloat16"), "a"), Dense("float32", "b"),
                                    Dense(TfKerasForm("mixed_bfloat16"), "c")})));
  ASSERT_TRUE(job.ok()) << job.status();
  // The product of each of two layers, the gradients of two kernels, and that of the input of "c".
  EXPECT_EQ(MarkedNodes(*job, {-1, 8}, {-1, 8}), 5);
  EXPECT_THAT(job->model.notes,
              ElementsAre(AllOf(HasSubstr("mixed_bfloat16"), HasSubstr("rounded to bfloat16"))));
}

TEST(Policy, OfALayerWithinALayerIsItsOwn) {
  const json inner = Dense("mixed_float16", "inner");
  const json wrapper = {{"class_name", "TimeDistributed"}, {"config", {{"layer", inner}}}};
  const auto job = JobOf(Sequential(json::array({wrapper, Dense(nullptr, "outer")})));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(MarkedNodes(*job, {-1, 3, 8}, {-1, 3, 8}), 2);
  EXPECT_THAT(job->model.notes, ElementsAre(HasSubstr("mixed_float16")));
}

// With whole cells and, for recurrent dropout, step by step.
TEST(Policy, OfACellIsThatOfItsProducts) {
  for (const double recurrent_dropout : {0.0, 0.5}) {
    const auto marked = [&](const json& cell_policy, const json& layer_policy) {
      json cell = {{"name", "cell"}, {"units", 8}, {"recurrent_dropout", recurrent_dropout}};
      if (!cell_policy.is_null()) cell["dtype"] = cell_policy;
      json config = {{"cell", {{"class_name", "LSTMCell"}, {"config", cell}}}};
      if (!layer_policy.is_null()) config["dtype"] = layer_policy;
      const auto job = JobOf(Sequential(
          json::array({{{"class_name", "RNN"}, {"config", config}}, Dense(nullptr, "head")})));
      EXPECT_TRUE(job.ok()) << job.status();
      return job.ok() ? MarkedNodes(*job, {-1, 3, 8}, {-1, 8}) : -1;
    };
    EXPECT_GT(marked("mixed_bfloat16", nullptr), 0) << recurrent_dropout;
    EXPECT_EQ(marked(nullptr, "mixed_bfloat16"), 0) << recurrent_dropout;
  }
}

TEST(Policy, OfTheModelIsThatOfLayersThatNameNone) {
  json model = Sequential(json::array({Dense(nullptr, "a"), Dense("float32", "b")}));
  model["dtype_policy"] = "mixed_bfloat16";
  const auto job = JobOf(model);
  ASSERT_TRUE(job.ok()) << job.status();
  // The product of "a" and the gradient of its kernel.
  EXPECT_EQ(MarkedNodes(*job, {-1, 8}, {-1, 8}), 2);
  const auto again = ParseJob(JobToJson(*job), "written", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *job);
}

// Keras names the policy of each layer in its file, "float32" where nothing else was said.
TEST(Policy, OfTheModelIsThatOfAllLayersInAFileOfKeras) {
  json model = Sequential(json::array({Dense("float32", "a"), Dense(KerasForm("float32"), "b")}));
  model["keras_version"] = "2.15.0";
  const auto job = JobOf({{"keras", model}, {"dtype_policy", "mixed_float16"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(MarkedNodes(*job, {-1, 8}, {-1, 8}), 5);
}

TEST(Policy, OfTheModelIsRefusedWithThePoliciesThatThereAre) {
  json model = Sequential(json::array({Dense(nullptr, "a")}));
  model["dtype_policy"] = "bfloat16";
  EXPECT_THAT(std::string(JobOf(model).status().message()),
              AllOf(HasSubstr("model.dtype_policy: is \"bfloat16\""), HasSubstr("mixed_bfloat16")));
}

TEST(Policy, IsPartOfTheSettings) {
  const auto mixed = JobOf(Sequential(json::array({Dense("mixed_bfloat16", "a")})));
  const auto plain = JobOf(Sequential(json::array({Dense("float32", "a")})));
  ASSERT_TRUE(mixed.ok() && plain.ok());
  EXPECT_NE(mixed->model.layers[0].config, plain->model.layers[0].config);
  EXPECT_EQ(MarkedNodes(*plain, {-1, 8}, {-1, 8}), 0);
  EXPECT_THAT(plain->model.notes, IsEmpty());
}

TEST(Policy, OfOtherTypesIsRefusedWithItsPathAndThePoliciesThatThereAre) {
  const auto job = JobOf(Sequential(json::array({Dense(KerasForm("bfloat16"), "a")})));
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("layers.0.config.dtype"), HasSubstr("mixed_bfloat16")));
}

}  // namespace
}  // namespace cohort
