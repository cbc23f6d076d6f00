// Functional models: Keras 3's own form (tests/golden/keras/make_functional.py), Keras 2's form of
// inbound nodes, and what is wrong with others.

#include <fstream>
#include <string>

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

json Layer(const std::string& class_name, json config, const json& inbound_nodes) {
  return {
      {"class_name", class_name}, {"config", std::move(config)}, {"inbound_nodes", inbound_nodes}};
}

json Tensor(const std::string& layer, int node = 0) { return json::array({layer, node, 0}); }

// An item of inbound_nodes.
json Given(const std::vector<json>& tensors) { return json(tensors); }
json Nodes(const std::vector<json>& nodes) { return json(nodes); }

// Two ids of one table, beside numbers; the layers are not in the order of their use.
json TwoIds() {
  const std::vector<json> layers = {
      Layer("Dense", {{"name", "out"}, {"units", 2}}, Nodes({Given({Tensor("all")})})),
      Layer("Concatenate", {{"name", "all"}},
            Nodes({Given({Tensor("table", 1), Tensor("x"), Tensor("table")})})),
      Layer("Embedding", {{"name", "table"}, {"input_dim", 9}, {"output_dim", 4}},
            Nodes({Given({Tensor("a")}), Given({Tensor("b")})})),
      Layer("InputLayer",
            {{"name", "a"}, {"batch_shape", json::array({nullptr})}, {"dtype", "int64"}},
            json::array()),
      Layer("InputLayer", {{"name", "x"}, {"batch_shape", json::array({nullptr, 3})}},
            json::array()),
      Layer("InputLayer",
            {{"name", "b"}, {"batch_shape", json::array({nullptr})}, {"dtype", "int64"}},
            json::array())};
  return {{"class_name", "Functional"},
          {"config",
           {{"layers", layers},
            {"input_layers", Given({Tensor("x"), Tensor("a"), Tensor("b")})},
            {"output_layers", Tensor("out")}}}};
}

std::vector<std::string> CallNames(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const LayerCall& call : model.calls) {
    std::string name = model.layers[call.layer].name + "(";
    for (const CallInput& input : call.inputs) name += std::to_string(input.tensor.call) + ",";
    names.push_back(name + ")");
  }
  return names;
}

TEST(FunctionalModel, UsesComeAfterWhatTheyAreGiven) {
  const auto job = Parse(TwoIds());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(CallNames(job->model),
              ElementsAre("a()", "x()", "b()", "table(0,)", "table(2,)", "all(4,1,3,)", "out(5,)"));
  EXPECT_THAT(job->model.inputs, ElementsAre(1, 0, 2));
  EXPECT_THAT(job->model.outputs, ElementsAre(TensorRef{6, 0}));
  const json table = json::parse(job->model.layers[2].config);
  EXPECT_EQ(table["input_dim"], 9);
  EXPECT_EQ(table["embeddings_initializer"]["class_name"], "RandomUniform");
  EXPECT_EQ(table["embeddings_initializer"]["config"]["maxval"], 0.05);
}

TEST(FunctionalModel, WhatIsWrittenReadsAsTheSameModel) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/keras/functional.json");
  const json golden = json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(golden.is_object());
  std::vector<json> models = {TwoIds()};
  for (const json& one : golden.at("cases")) models.push_back(one.at("model"));
  for (const json& model : models) {
    const auto job = Parse(model);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_FALSE(job->model.sequential);
    const auto again = ParseJob(JobToJson(*job), "again", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->model, job->model);
  }
}

struct Wrong {
  const char* pointer;  // of what is replaced in TwoIds
  json value;
  const char* path;
  const char* message;
};

TEST(FunctionalModel, ErrorsNameTheField) {
  const json tensor = {{"class_name", "__keras_tensor__"},
                       {"config", {{"keras_history", Tensor("nobody")}}}};
  const json history = {{"args", Given({tensor})}};
  const std::vector<Wrong> cases = {
      {"/config/layers/0/inbound_nodes/0/0/0", "alll", "model.config.layers.0.inbound_nodes.0.0",
       "'alll' is not a known layer of the model; the nearest is 'all'"},
      {"/config/layers/0/inbound_nodes/0/0/1", 1, "model.config.layers.0.inbound_nodes.0.0",
       "names use 1 of 'all'"},
      {"/config/layers/0/inbound_nodes/0", history,
       "model.config.layers.0.inbound_nodes.0.args.0.config.keras_history", "'nobody'"},
      {"/config/layers/0/inbound_nodes/0", Given({Tensor("x"), Tensor("all")}),
       "model.config.layers.0.inbound_nodes.0", "gives 'out' 2 tensors, not one"},
      {"/config/layers/1/inbound_nodes/0/1", Tensor("out"), "inbound_nodes", "circle"},
      {"/config/layers/0/inbound_nodes/0/0", json::array({"all", 0, 0, json{{"training", 1}}}),
       "model.config.layers.0.inbound_nodes.0.0.3.training", "must be true or false"},
      {"/config/layers/0/inbound_nodes/0/0", json::array({"all", 0, 0, json{{"axis", 1}}}),
       "model.config.layers.0.inbound_nodes.0", "the argument 'axis', which Dense does not take"},
      {"/config/layers/0/inbound_nodes", json::array(), "model.config.layers.0.inbound_nodes",
       "must be a list that says what the layer is given"},
      {"/config/layers/3/inbound_nodes", json::array({1}), "model.config.layers.3.inbound_nodes",
       "must be []"},
      {"/config/layers/0/config/name", "all", "model.config.layers.1.name",
       "two layers are named 'all'"},
      {"/config/layers/0/name", "other", "model.config.layers.0.name", "'out'"},
      {"/config/input_layers", Tensor("x"), "model.config.input_layers",
       "does not name InputLayer 'a'"},
      {"/config/input_layers/1", Tensor("x"), "model.config.input_layers.1", "twice"},
      {"/config/output_layers", Tensor("all"), "model.config.output_layers",
       "does not depend on layer 'out'"},
      {"/config/output_layers", 7, "model.config.output_layers", "is 7"},
      {"/config/layers/2/config/embeddings_constraint", "RadialConstraint",
       "model.config.layers.2.config.embeddings_constraint",
       "'RadialConstraint' is not a known constraint"}};
  for (const Wrong& wrong : cases) {
    json model = TwoIds();
    model[json::json_pointer(wrong.pointer)] = wrong.value;
    const auto job = Parse(model);
    ASSERT_FALSE(job.ok()) << wrong.pointer << " = " << wrong.value;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(wrong.message)) << wrong.pointer;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(wrong.path)) << wrong.pointer;
  }
}

TEST(FunctionalModel, ASequentialModelCannotJoin) {
  const json model = {{"class_name", "Sequential"},
                      {"config", {{"layers", {{{"class_name", "Concatenate"}}}}}}};
  EXPECT_THAT(std::string(Parse(model).status().message()), HasSubstr("class Functional"));
}

// A Dropout that is called with these arguments, as Keras 2 or Keras 3 writes it.
json WithArguments(const json& arguments, bool as_keras3) {
  json input = Layer("InputLayer", {{"name", "x"}, {"batch_shape", {nullptr, 3}}}, json::array());
  json drop = Layer("Dropout", {{"name", "drop"}, {"rate", 0.5}}, json::array());
  if (as_keras3) {
    const json tensor = {{"class_name", "__keras_tensor__"},
                         {"config", {{"keras_history", {"x", 0, 0}}}}};
    drop["inbound_nodes"] = json::array({{{"args", json::array({tensor})}, {"kwargs", arguments}}});
  } else {
    drop["inbound_nodes"] = json::array({json::array({json::array({"x", 0, 0, arguments})})});
  }
  const json out =
      Layer("Dense", {{"name", "out"}, {"units", 2}}, Nodes({Given({Tensor("drop")})}));
  return {{"class_name", "Functional"},
          {"config",
           {{"layers", {input, drop, out}},
            {"input_layers", Given({Tensor("x")})},
            {"output_layers", Tensor("out")}}}};
}

std::optional<bool> TrainsDropout(const json& model) {
  const auto job = Parse(model);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->model.calls.at(1).training : std::nullopt;
}

// Keras 2 obeys `training`. Keras 3 writes it unasked, and its fit overrides it.
TEST(FunctionalModel, TrainingCountsButInFilesOfKeras3) {
  for (const bool training : {false, true}) {
    const json arguments = {{"training", training}};
    for (const bool as_keras3 : {false, true}) {
      EXPECT_EQ(TrainsDropout(WithArguments(json::object(), as_keras3)), std::nullopt);
      EXPECT_EQ(TrainsDropout(WithArguments({{"training", nullptr}}, as_keras3)), std::nullopt);
      EXPECT_EQ(TrainsDropout(WithArguments(arguments, as_keras3)), training) << "by hand";
    }
    json keras2 = WithArguments(arguments, false);
    keras2["keras_version"] = "2.15.0";
    EXPECT_EQ(TrainsDropout(keras2), training);
    keras2["module"] = "keras.src.engine.functional";
    EXPECT_EQ(TrainsDropout(keras2), training);
    keras2.erase("keras_version");
    EXPECT_EQ(TrainsDropout(keras2), training) << "its inbound nodes are Keras 2's";
    json keras3 = WithArguments(arguments, true);
    keras3["module"] = "keras.src.models.functional";
    EXPECT_EQ(TrainsDropout(keras3), std::nullopt);
    json of_layer = WithArguments(arguments, true);
    of_layer["config"]["layers"][1]["module"] = "keras.layers";
    EXPECT_EQ(TrainsDropout(of_layer), std::nullopt);
    json with_version = WithArguments(arguments, true);
    with_version["keras_version"] = "3.4.1";
    EXPECT_EQ(TrainsDropout(with_version), std::nullopt);
  }
}

TEST(FunctionalModel, TrainingFalseIsWrittenAsItIsRead) {
  const auto job = Parse(WithArguments({{"training", false}}, false));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto again = ParseJob(JobToJson(*job), "again", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->model, job->model);
  EXPECT_EQ(again->model.calls.at(1).training, false);
}

}  // namespace
}  // namespace cohort
