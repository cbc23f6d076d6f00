// What Keras itself serialises (tests/golden/keras/make_golden.py) reads as a job.

#include <fstream>
#include <string>

#include "coordinator/job/job_spec.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// Returns the canonical config of a layer.
json ConfigOf(const LayerSpec& layer) { return json::parse(layer.config); }

json Forms() {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/keras/serialized_forms.json");
  json forms = json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(forms.is_object());
  return forms;
}

JobSpec Parse(const json& model, const json& optimizer, const json& loss, const json& metrics) {
  const json job = {{"model", model},
                    {"compile", {{"optimizer", optimizer}, {"loss", loss}, {"metrics", metrics}}},
                    {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  absl::StatusOr<JobSpec> parsed = ParseJob(job.dump(), "keras", {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(JobSpec());
}

const json kNoMetrics = json::array();

TEST(KerasForms, ModelsAreTheShippedOneAndOneWithOtherLayers) {
  const json forms = Forms();
  const JobSpec mlp = Parse(forms["models"][0], "sgd", "categorical_crossentropy", kNoMetrics);
  ASSERT_EQ(mlp.model.layers.size(), 6u);
  EXPECT_EQ(mlp.model.layers[0].input()->shape, std::vector<int64_t>{784});
  EXPECT_EQ(mlp.model.layers[3].name, "dense_1");
  EXPECT_EQ(ConfigOf(mlp.model.layers[4])["rate"], 0.3);
  const JobSpec image = Parse(forms["models"][1], "sgd", "categorical_crossentropy", kNoMetrics);
  ASSERT_EQ(image.model.layers.size(), 4u);
  const json dense = ConfigOf(image.model.layers[2]);
  EXPECT_EQ(dense["kernel_initializer"]["class_name"], "HeNormal");
  EXPECT_EQ(dense["bias_initializer"]["class_name"], "Constant");
  EXPECT_EQ(dense["bias_initializer"]["config"]["value"], 0.5);
  EXPECT_EQ(ConfigOf(image.model.layers[3])["activation"], "tanh");
}

// The serialised defaults and the defaults of the string form are the same, up to Keras's float32
// learning rate.
TEST(KerasForms, OptimizersHaveKerasDefaults) {
  const json forms = Forms();
  ASSERT_EQ(forms["optimizers"].size(), 9u);
  for (const json& form : forms["optimizers"]) {
    const std::string name = form["class_name"];
    const OptimizerSpec full =
        Parse(forms["models"][0], form, "categorical_crossentropy", kNoMetrics).compile.optimizer;
    const OptimizerSpec short_form =
        Parse(forms["models"][0], name, "categorical_crossentropy", kNoMetrics).compile.optimizer;
    EXPECT_EQ(full.class_name, name);
    EXPECT_EQ(full.parameters, short_form.parameters) << name;
    EXPECT_EQ(static_cast<float>(full.learning_rate), static_cast<float>(short_form.learning_rate));
  }
}

TEST(KerasForms, LossesAndMetrics) {
  const json forms = Forms();
  const CompileSpec dense =
      Parse(forms["models"][0], "sgd", forms["losses"][0], json::array({forms["metrics"][0]}))
          .compile;
  EXPECT_EQ(dense.outputs[0].loss.class_name, "CategoricalCrossentropy");
  EXPECT_FALSE(dense.outputs[0].loss.config.Flag("from_logits"));
  EXPECT_EQ(dense.outputs[0].metrics.at(0).class_name, "CategoricalAccuracy");
  EXPECT_EQ(dense.outputs[0].metrics.at(0).name, "categorical_accuracy");
  const CompileSpec sparse =
      Parse(forms["models"][0], "sgd", forms["losses"][1], json::array({forms["metrics"][1]}))
          .compile;
  EXPECT_EQ(sparse.outputs[0].loss.class_name, "SparseCategoricalCrossentropy");
  EXPECT_TRUE(sparse.outputs[0].loss.config.Flag("from_logits"));
  EXPECT_EQ(sparse.outputs[0].metrics.at(0).name, "acc");
}

}  // namespace
}  // namespace cohort
