// Writes models in one canonical form, which read_model.cc and functional.cc read.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/network/model_config.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

// Writes the calls of one functional model. Lives for one call of ModelConfigToJson.
// Thread-compatible.
class CallWriter {
 public:
  explicit CallWriter(const ModelSpec& model) : model_(model) {
    std::vector<int64_t> uses(model.layers.size(), 0);
    for (const LayerCall& call : model.calls) {
      const LayerSpec& layer = model.layers[call.layer];
      // Keras 2 numbers the calls of a nested model from 1.
      const bool from_one =
          layer.type->kind == LayerKind::kModel && model.keras.IsKeras2() && WritesVersion();
      numbers_.push_back(uses[call.layer]++ + (from_one ? 1 : 0));
    }
  }

  // Returns Keras's name of a tensor, [layer, number of the layer's call, output].
  ordered_json Name(const TensorRef& tensor) const {
    const std::string& layer = model_.layers[model_.calls[tensor.call].layer].name;
    return {layer, numbers_[tensor.call], tensor.tensor};
  }

  // Returns the node of a call: a list of tensors, or Keras 3's object if it has more arguments.
  ordered_json Node(const LayerCall& call) const {
    if (!call.arguments.empty()) return ObjectNode(call);
    ordered_json node = ordered_json::array();
    for (const CallInput& input : call.inputs) {
      node.push_back(Name(input.tensor));
      if (call.training) node.back().push_back({{"training", *call.training}});
    }
    return node;
  }

 private:
  bool WritesVersion() const { return model_.depends_on_version; }

  ordered_json ObjectNode(const LayerCall& call) const {
    ordered_json node = ordered_json::parse(call.arguments, nullptr, false);
    Resolve(call, node);
    if (call.training) node["kwargs"]["training"] = *call.training;
    return node;
  }

  // Replaces each {"tensor": i} by the name of input i.
  void Resolve(const LayerCall& call, ordered_json& value) const {
    if (!value.is_structured()) return;
    if (value.is_object() && value.size() == 1 && value.contains("tensor")) {
      const auto input = value["tensor"].get<size_t>();
      value = {{"class_name", "__keras_tensor__"},
               {"config", {{"keras_history", Name(call.inputs.at(input).tensor)}}}};
      return;
    }
    for (ordered_json& item : value) Resolve(call, item);
  }

  const ModelSpec& model_;
  std::vector<int64_t> numbers_;  // for each call, its number among the calls of the layer
};

ordered_json FunctionalConfig(const ModelSpec& model) {
  const CallWriter writer(model);
  std::vector<ordered_json> nodes(model.layers.size(), ordered_json::array());
  for (const LayerCall& call : model.calls) {
    // An InputLayer has a call without inputs, and Keras writes no node for it.
    if (!call.inputs.empty()) nodes[call.layer].push_back(writer.Node(call));
  }
  ordered_json layers = ordered_json::array();
  for (size_t i = 0; i < model.layers.size(); ++i) {
    ordered_json layer = LayerToJson(model.layers[i]);
    layer["inbound_nodes"] = std::move(nodes[i]);
    layers.push_back(std::move(layer));
  }
  const auto ends = [&](const std::vector<TensorRef>& tensors,
                        const std::vector<std::string>& names) {
    ordered_json list = names.empty() ? ordered_json::array() : ordered_json::object();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (names.empty()) {
        list.push_back(writer.Name(tensors[i]));
      } else {
        list[names[i]] = writer.Name(tensors[i]);
      }
    }
    return list;
  };
  std::vector<TensorRef> inputs;
  for (const size_t input : model.inputs) inputs.push_back({input, 0});
  ordered_json config = {{"layers", std::move(layers)}};
  config["input_layers"] = ends(inputs, model.input_names);
  const bool is_single = model.outputs.size() == 1 && model.output_names.empty();
  config["output_layers"] =
      is_single ? writer.Name(model.outputs[0]) : ends(model.outputs, model.output_names);
  return config;
}

}  // namespace

ordered_json ModelConfigToJson(const ModelSpec& model) {
  if (!model.sequential) return FunctionalConfig(model);
  ordered_json layers = ordered_json::array();
  for (const LayerSpec& layer : model.layers) layers.push_back(LayerToJson(layer));
  return {{"layers", std::move(layers)}};
}

ordered_json ModelToJson(const ModelSpec& model) {
  ordered_json config = {{"name", model.name}};
  if (!model.trainable) config["trainable"] = false;
  const ordered_json rest = ModelConfigToJson(model);
  for (const auto& item : rest.items()) config[item.key()] = item.value();
  ordered_json json = {{"class_name", model.sequential ? "Sequential" : "Functional"},
                       {"config", std::move(config)}};
  // The version is written only if a layer depends on it, so that the text of other models does not
  // change.
  if (model.depends_on_version && model.keras != KerasVersion()) {
    json["keras_version"] = absl::StrCat(model.keras.major, ".", model.keras.minor, ".0");
  }
  return json;
}

bool operator==(const ModelSpec& a, const ModelSpec& b) { return ModelToJson(a) == ModelToJson(b); }

}  // namespace cohort
