#include "coordinator/train/weight_groups.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/weights/keras_groups.h"
#include "coordinator/network/model_config.h"

namespace cohort {

namespace {

using nlohmann::ordered_json;

// A part of a layer that has variables: the part's name in the names of variables, and the names of
// the attributes of Keras 2 and 3 by which the part's group is named.
struct LayerPart {
  absl::string_view layer;
  absl::string_view name;
  absl::string_view keras2;
  absl::string_view keras3;
};

constexpr LayerPart kParts[] = {
    {"MultiHeadAttention", "query", "_query_dense", "query_dense"},
    {"MultiHeadAttention", "key", "_key_dense", "key_dense"},
    {"MultiHeadAttention", "value", "_value_dense", "value_dense"},
    {"MultiHeadAttention", "attention_output", "_output_dense", "output_dense"},
    {"GroupedQueryAttention", "query", "_query_dense", "_query_dense"},
    {"GroupedQueryAttention", "key", "_key_dense", "_key_dense"},
    {"GroupedQueryAttention", "value", "_value_dense", "_value_dense"},
    {"GroupedQueryAttention", "attention_output", "_output_dense", "_output_dense"},
    {"SimpleRNN", "simple_rnn_cell", "cell", "cell"},
    {"LSTM", "lstm_cell", "cell", "cell"},
    {"GRU", "gru_cell", "cell", "cell"},
};

// A key of a wrapper's config that holds a layer, and the name of the attribute by which the
// layer's group is named.
struct InnerLayer {
  absl::string_view wrapper;
  const char* key;
  absl::string_view attribute;
};

constexpr InnerLayer kInnerLayers[] = {
    {"Bidirectional", "layer", "forward_layer"},
    {"Bidirectional", "backward_layer", "backward_layer"},
    {"TimeDistributed", "layer", "layer"},
};

std::string Joined(const std::string& around, absl::string_view name) {
  return around.empty() ? std::string(name) : absl::StrCat(around, "/", name);
}

// Returns the text under a key of a layer's form or config, or "".
std::string TextIn(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Returns the layers that Keras counts as the layers of a model: no operations, and no InputLayer
// of a Sequential model.
std::vector<const ordered_json*> LayersOf(const ordered_json& model) {
  const bool is_sequential = TextIn(model, "class_name") == "Sequential";
  std::vector<const ordered_json*> layers;
  for (const ordered_json& layer : model.at("config").at("layers")) {
    const bool is_input = TextIn(layer, "class_name") == "InputLayer";
    if (!layer.contains("module") && !(is_sequential && is_input)) layers.push_back(&layer);
  }
  return layers;
}

// The path of a layer's or a part's group, and its path in the object graph.
struct Where {
  std::string path;
  std::string tracked;

  Where Inside(absl::string_view attribute) const {
    return {Joined(path, attribute), Joined(tracked, attribute)};
  }
};

// Collects the groups of one model from its canonical JSON. Thread-compatible.
class GroupCollector {
 public:
  GroupCollector(bool is_keras2, absl::Span<const std::string> variables)
      : is_keras2_(is_keras2), names_(variables.begin(), variables.end()) {
    for (const std::string& variable : variables) {
      const size_t end = variable.rfind('/');
      by_owner_[end == std::string::npos ? "" : variable.substr(0, end)].push_back(variable);
    }
  }

  absl::StatusOr<std::vector<WeightGroup>> Collect(const ordered_json& model) {
    Add(Where(), TextIn(model.at("config"), "name"), "");
    AddLayersOf(model, Where(), "");
    for (const auto& [owner, variables] : by_owner_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", Excerpt(variables.front()),
          "' has no place of its own in a file of Keras; leave the key out, a checkpoint and "
          "export.safetensors have every variable by its name"));
    }
    return std::move(groups_);
  }

 private:
  // Adds the group of the variables named `owner`/NAME. If a second layer has the same owner, its
  // variables are taken already, and its group is empty.
  void Add(const Where& where, const std::string& name, const std::string& owner) {
    WeightGroup group{where.path, is_keras2_ ? "" : name, {}, where.tracked};
    if (const auto found = by_owner_.find(owner); found != by_owner_.end()) {
      group.variables = std::move(found->second);
      by_owner_.erase(found);
    }
    groups_.push_back(std::move(group));
  }

  // Returns whether the layer whose variables begin with `owner` has any.
  bool HasWeights(const std::string& owner) const {
    const auto found = names_.lower_bound(absl::StrCat(owner, "/"));
    return found != names_.end() && absl::StartsWith(*found, absl::StrCat(owner, "/"));
  }

  // Adds the layers of a model. `owner` begins the names of their variables.
  void AddLayersOf(const ordered_json& model, const Where& where, const std::string& owner) {
    const std::vector<const ordered_json*> layers = LayersOf(model);
    std::vector<std::string> classes;
    for (const ordered_json* const layer : layers) classes.push_back(TextIn(*layer, "class_name"));
    const std::vector<std::string> paths = KerasLayerGroups(classes);
    int with_weights = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      Where layer{Joined(where.path, paths[i]), ""};
      if (HasWeights(Joined(owner, TextIn(layers[i]->at("config"), "name")))) {
        layer.tracked = Joined(where.tracked, absl::StrCat("layer_with_weights-", with_weights++));
      }
      AddLayer(*layers[i], layer, owner);
    }
  }

  // Adds a layer and all layers and parts in it. The reader of layers has limited their depth.
  void AddLayer(const ordered_json& layer, const Where& where, const std::string& around) {
    const std::string type = TextIn(layer, "class_name");
    const ordered_json& config = layer.at("config");
    const std::string owner = Joined(around, TextIn(config, "name"));
    Add(where, TextIn(config, "name"), owner);
    AddParts(type, where, owner);
    for (const InnerLayer& inner : kInnerLayers) {
      if (inner.wrapper != type || !config.contains(inner.key)) continue;
      AddLayer(config.at(inner.key), where.Inside(inner.attribute), owner);
    }
    if (type == "RNN") AddCell(config.at("cell"), where.Inside("cell"), owner);
    if (type == "Sequential" || type == "Functional") AddLayersOf(layer, where, owner);
  }

  // Adds the parts of a layer that have variables.
  void AddParts(const std::string& type, const Where& where, const std::string& layer) {
    for (const LayerPart& part : kParts) {
      const std::string owner = Joined(layer, part.name);
      if (part.layer != type || !by_owner_.contains(owner)) continue;
      // Keras 2 uses the same names in the object graph.
      Where inside = where.Inside(part.keras2);
      if (!is_keras2_) inside.path = Joined(where.path, part.keras3);
      Add(inside, std::string(part.name), owner);
    }
  }

  // Adds the cell of an RNN. The cells of StackedRNNCells have groups that are numbered by class,
  // like those of layers.
  void AddCell(const ordered_json& cell, const Where& where, const std::string& around) {
    const ordered_json& config = cell.at("config");
    const std::string owner = Joined(around, TextIn(config, "name"));
    Add(where, TextIn(config, "name"), owner);
    if (!config.contains("cells")) return;
    const Where cells = where.Inside("cells");
    std::map<std::string, int> counts;
    int number = 0;
    for (const ordered_json& one : config.at("cells")) {
      const std::string group = KerasSnakeCase(TextIn(one, "class_name"));
      const int count = counts[group]++;
      const std::string counted = count == 0 ? group : absl::StrCat(group, "_", count);
      const std::string position = absl::StrCat(number++);
      AddCell(one, {Joined(cells.path, counted), Joined(cells.tracked, position)}, owner);
    }
  }

  const bool is_keras2_;
  const std::set<std::string> names_;
  std::map<std::string, std::vector<std::string>> by_owner_;  // variables without a group
  std::vector<WeightGroup> groups_;
};

}  // namespace

absl::StatusOr<std::vector<WeightGroup>> KerasWeightGroups(
    const ModelSpec& model, absl::Span<const std::string> variables) {
  return GroupCollector(model.file_form.keras == 2, variables).Collect(ModelToJson(model));
}

}  // namespace cohort
