// The order of a functional model's layers, beside that of `model.layers` in Keras 2.15 and 3.15.

#include "coordinator/train/keras_order.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cohort {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;

ordered_json Layer(const std::string& type, const std::string& name,
                   const ordered_json& inbound_nodes) {
  return {{"class_name", type}, {"config", {{"name", name}}}, {"inbound_nodes", inbound_nodes}};
}

ordered_json NameOf(const std::string& layer, int call) {
  return ordered_json::array({layer, call, 0});
}

ordered_json Node(const std::vector<ordered_json>& inputs) { return ordered_json(inputs); }

std::vector<std::string> NamesIn(const ordered_json& model) {
  std::vector<std::string> names;
  for (const ordered_json& layer : model.at("config").at("layers")) {
    names.push_back(layer.at("config").at("name"));
  }
  return names;
}

ordered_json Functional(const std::vector<ordered_json>& layers, const ordered_json& outputs) {
  return {{"class_name", "Functional"},
          {"config", {{"name", "m"}, {"layers", layers}, {"output_layers", outputs}}}};
}

const ordered_json kNone = ordered_json::array();

// Keras: a, b = Input(name="a"), Input(name="b"); short = Dense(name="short")(b); ...
ordered_json Branches() {
  const auto dense = [](const std::string& name, const ordered_json& input) {
    return Layer("Dense", name, ordered_json::array({Node({input})}));
  };
  return Functional(
      {Layer("InputLayer", "a", kNone), Layer("InputLayer", "b", kNone),
       Layer("InputLayer", "unused", kNone), dense("short", NameOf("b", 0)),
       dense("d1", NameOf("a", 0)), dense("side", NameOf("d1", 0)),
       Layer("Dense", "shared",
             ordered_json::array({Node({NameOf("d1", 0)}), Node({NameOf("shared", 0)})})),
       dense("deep", NameOf("shared", 1)),
       Layer(
           "Concatenate", "cat",
           ordered_json::array({Node({NameOf("side", 0), NameOf("deep", 0), NameOf("short", 0)})})),
       dense("out", NameOf("cat", 0))},
      ordered_json::array({NameOf("out", 0), NameOf("side", 0)}));
}

TEST(KerasOrder, IsThatOfTheDistanceFromTheOutputs) {
  ordered_json model = Branches();
  OrderAsKeras(model);
  EXPECT_THAT(NamesIn(model), ElementsAre("a", "d1", "shared", "b", "side", "deep", "short", "cat",
                                          "unused", "out"));
  // What is in order stays.
  const std::vector<std::string> once = NamesIn(model);
  OrderAsKeras(model);
  EXPECT_EQ(NamesIn(model), once);
}

TEST(KerasOrder, HoldsForModelsInModels) {
  ordered_json inner = Branches();
  inner["config"]["name"] = "inner";
  inner["inbound_nodes"] = kNone;
  ordered_json outer = {{"class_name", "Sequential"}, {"config", {{"layers", {inner}}}}};
  OrderAsKeras(outer);
  EXPECT_EQ(NamesIn(outer.at("config").at("layers")[0])[1], "d1");
}

// Keras 3 writes the arguments of a call as an object, whose keys it sorts.
TEST(KerasOrder, OfNamedArgumentsTheSortedNamesCount) {
  const auto tensor = [](const std::string& layer) -> ordered_json {
    return {{"class_name", "__keras_tensor__"}, {"config", {{"keras_history", NameOf(layer, 0)}}}};
  };
  const ordered_json call = {{"args", ordered_json::array({tensor("q")})},
                             {"kwargs", {{"value", tensor("v")}, {"key", tensor("k")}}}};
  ordered_json model =
      Functional({Layer("InputLayer", "v", kNone), Layer("InputLayer", "k", kNone),
                  Layer("InputLayer", "q", kNone),
                  Layer("MultiHeadAttention", "attend", ordered_json::array({call}))},
                 NameOf("attend", 0));
  OrderAsKeras(model);
  EXPECT_THAT(NamesIn(model), ElementsAre("q", "k", "v", "attend"));
}

}  // namespace
}  // namespace cohort
