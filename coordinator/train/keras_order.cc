#include "coordinator/train/keras_order.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

namespace {

using nlohmann::ordered_json;

// A call of a layer: the number of the layer in the configuration, and that of the call.
struct Call {
  size_t layer = 0;
  size_t number = 0;
  friend auto operator<=>(const Call&, const Call&) = default;
};

// Orders the layers of one functional model. Thread-compatible.
class Orderer {
 public:
  explicit Orderer(const ordered_json& config) : layers_(config.at("layers")) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      numbers_[layers_[i].at("config").at("name").get<std::string>()] = i;
    }
    Collect(config.at("output_layers"), outputs_);
  }

  // Returns the numbers of the layers in Keras's order.
  std::vector<size_t> Order() {
    for (const Call& call : outputs_) Visit(call);
    std::map<Call, size_t> call_depths;
    std::map<size_t, size_t> depths;  // by layer
    for (auto call = finished_.rbegin(); call != finished_.rend(); ++call) {
      // A layer that is called several times is as far as its furthest call.
      const size_t depth = std::max(call_depths[*call], depths[call->layer]);
      call_depths[*call] = depths[call->layer] = depth;
      for (const Call& before : InputsOf(*call)) {
        call_depths[before] = std::max(call_depths[before], depth + 1);
      }
    }
    std::vector<size_t> order;
    for (size_t i = 0; i < layers_.size(); ++i) order.push_back(i);
    // Layers that no output needs stand before the outputs.
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const size_t depth_a = depths.contains(a) ? depths[a] : 0;
      const size_t depth_b = depths.contains(b) ? depths[b] : 0;
      if (depth_a != depth_b) return depth_a > depth_b;
      const size_t met_a = met_.contains(a) ? met_[a] + 1 : 0;
      const size_t met_b = met_.contains(b) ? met_[b] + 1 : 0;
      return met_a < met_b;
    });
    return order;
  }

 private:
  // Collects the calls whose outputs a value names: ["dense", 0, 0], or an object of Keras 3 with
  // such a name, anywhere inside.
  void Collect(const ordered_json& value, std::vector<Call>& calls) const {
    if (!value.is_structured()) return;
    const bool is_name = value.is_array() && value.size() >= 3 && value[0].is_string() &&
                         value[1].is_number_integer() && value[2].is_number_integer();
    if (!is_name) {
      // Keras sorts the keys of objects.
      std::map<std::string, const ordered_json*> by_key;
      if (value.is_object()) {
        for (const auto& item : value.items()) by_key[item.key()] = &item.value();
        for (const auto& [key, item] : by_key) Collect(*item, calls);
      } else {
        for (const ordered_json& item : value) Collect(item, calls);
      }
      return;
    }
    const auto found = numbers_.find(value[0].get<std::string>());
    if (found == numbers_.end()) return;
    // Keras 2 counts the calls of a nested model from 1.
    const size_t nodes = layers_[found->second].at("inbound_nodes").size();
    const size_t number = std::min(value[1].get<size_t>(), std::max<size_t>(nodes, 1) - 1);
    calls.push_back({found->second, number});
  }

  const std::vector<Call>& InputsOf(const Call& call) {
    const auto [found, is_new] = inputs_.try_emplace(call);
    const ordered_json& nodes = layers_[call.layer].at("inbound_nodes");
    if (is_new && call.number < nodes.size()) Collect(nodes[call.number], found->second);
    return found->second;
  }

  // Walks to the inputs, depth first.
  void Visit(const Call& call) {
    if (is_visited_[call]) return;
    is_visited_[call] = true;
    met_.try_emplace(call.layer, met_.size());
    for (const Call& before : InputsOf(call)) Visit(before);
    finished_.push_back(call);
  }

  const ordered_json& layers_;
  std::map<std::string, size_t> numbers_;  // by name
  std::vector<Call> outputs_;
  std::map<Call, std::vector<Call>> inputs_;
  std::map<Call, bool> is_visited_;
  std::map<size_t, size_t> met_;  // layers, by when the walk met them first
  std::vector<Call> finished_;
};

}  // namespace

void OrderAsKeras(ordered_json& model) {
  ordered_json& config = model.at("config");
  if (!config.contains("layers")) return;
  ordered_json ordered = ordered_json::array();
  if (model.at("class_name") == "Functional") {
    for (const size_t i : Orderer(config).Order()) ordered.push_back(config.at("layers")[i]);
  } else {
    ordered = config.at("layers");
  }
  for (ordered_json& layer : ordered) OrderAsKeras(layer);
  config["layers"] = std::move(ordered);
}

}  // namespace cohort
