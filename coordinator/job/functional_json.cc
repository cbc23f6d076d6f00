#include <utility>
#include <vector>

#include "coordinator/job/functional_section.h"
#include "coordinator/job/layer_section.h"
#include "nlohmann/json.hpp"

namespace cohort {

using nlohmann::ordered_json;

ordered_json FunctionalToJson(const ModelSpec& model) {
  // Keras names a tensor by [layer, number of the layer's use, 0].
  std::vector<int64_t> uses(model.layers.size(), 0);
  std::vector<ordered_json> tensors;
  std::vector<ordered_json> nodes(model.layers.size(), ordered_json::array());
  for (const LayerCall& call : model.calls) {
    tensors.push_back({LayerName(model.layers[call.layer]), uses[call.layer]++, 0});
    ordered_json node = ordered_json::array();
    for (const size_t input : call.inputs) {
      node.push_back(tensors[input]);
      if (!call.training) node.back().push_back({{"training", false}});
    }
    // An InputLayer has a call without inputs, and Keras writes no node for it.
    if (!node.empty()) nodes[call.layer].push_back(std::move(node));
  }
  ordered_json layers = ordered_json::array();
  for (size_t i = 0; i < model.layers.size(); ++i) {
    ordered_json layer = LayerToJson(model.layers[i]);
    layer["inbound_nodes"] = std::move(nodes[i]);
    layers.push_back(std::move(layer));
  }
  ordered_json inputs = ordered_json::array();
  for (const size_t input : model.inputs) inputs.push_back(tensors[input]);
  ordered_json config = {{"name", model.name}, {"layers", std::move(layers)}};
  config["input_layers"] = std::move(inputs);
  config["output_layers"] = tensors[model.output];
  return {{"class_name", "Functional"}, {"config", std::move(config)}};
}

}  // namespace cohort
