#include "coordinator/train/weight_groups.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/weights/keras_groups.h"
#include "coordinator/network/model_config.h"
#include "coordinator/train/keras_order.h"

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

bool IsDepthwise(absl::string_view type) {
  return type == "DepthwiseConv1D" || type == "DepthwiseConv2D";
}

// Return the attribute of a layer of Keras 2 or 3 that has a variable of this name. The names are
// those of either.
std::string AttributeInKeras2(absl::string_view type, absl::string_view variable) {
  return IsDepthwise(type) && variable == "kernel" ? "depthwise_kernel" : std::string(variable);
}
std::string AttributeInKeras3(absl::string_view type, absl::string_view variable) {
  constexpr std::array<absl::string_view, 5> kWithKernel = {"Dense", "EinsumDense", "Conv1D",
                                                            "Conv2D", "Conv3D"};
  const bool is_kernel = variable == "kernel" && absl::c_linear_search(kWithKernel, type);
  if (IsDepthwise(type) && variable == "depthwise_kernel") return "kernel";
  if (is_kernel || variable == "embeddings") return absl::StrCat("_", variable);
  return std::string(variable);
}

// A layer's or a part's group, and its ways in the object graphs of Keras 2 and 3.
struct Where {
  std::string path;
  std::string tracked;
  std::string tracked3;

  Where Inside(absl::string_view attribute) const {
    return {Joined(path, attribute), Joined(tracked, attribute), Joined(tracked3, attribute)};
  }
};

bool IsModel(const ordered_json& layer) {
  const std::string type = TextIn(layer, "class_name");
  return type == "Sequential" || type == "Functional";
}

// Returns whether a layer gives its output a mask.
bool MakesMask(const ordered_json& layer) {
  const ordered_json& config = layer.at("config");
  const auto mask_zero = config.find("mask_zero");
  return TextIn(layer, "class_name") == "Masking" ||
         (mask_zero != config.end() && *mask_zero == true);
}

// The classes of Keras 3 whose call takes the mask of its input, and those that pass it on.
constexpr std::array<absl::string_view, 11> kTakesMask = {"BatchNormalization",
                                                          "LSTM",
                                                          "GRU",
                                                          "SimpleRNN",
                                                          "RNN",
                                                          "Bidirectional",
                                                          "TimeDistributed",
                                                          "Softmax",
                                                          "Sequential",
                                                          "Functional",
                                                          "GlobalAveragePooling1D"};
constexpr std::array<absl::string_view, 19> kPassesMask = {"Dense",
                                                           "Activation",
                                                           "Dropout",
                                                           "SpatialDropout1D",
                                                           "Identity",
                                                           "SpatialDropout2D",
                                                           "SpatialDropout3D",
                                                           "GaussianNoise",
                                                           "AlphaDropout",
                                                           "GaussianDropout",
                                                           "LayerNormalization",
                                                           "ActivityRegularization",
                                                           "ReLU",
                                                           "GroupNormalization",
                                                           "UnitNormalization",
                                                           "LeakyReLU",
                                                           "PReLU",
                                                           "ELU",
                                                           "Rescaling"};

// Returns how many operations Keras 3 puts before each layer of a Sequential model to compute
// masks. A mask that a layer takes is NotEqual, of Masking Any of NotEqual. Operations are ordered
// by their distance from the output: the mask is as far as the layer before the first one that
// takes it, and behind that layer.
std::vector<size_t> MaskOperationsBefore(const std::vector<const ordered_json*>& layers) {
  std::vector<size_t> before(layers.size(), 0);
  for (size_t maker = 0; maker < layers.size(); ++maker) {
    if (!MakesMask(*layers[maker])) continue;
    size_t taker = maker + 1;
    while (taker < layers.size() && !MakesMask(*layers[taker]) &&
           absl::c_linear_search(kPassesMask, TextIn(*layers[taker], "class_name"))) {
      ++taker;
    }
    if (taker == layers.size()) continue;
    if (!absl::c_linear_search(kTakesMask, TextIn(*layers[taker], "class_name"))) continue;
    ++before[taker];
    if (TextIn(*layers[maker], "class_name") == "Masking") ++before[taker - 1];
  }
  return before;
}

// Returns the place of each layer among the operations of Keras 3's model, by the layer's name.
std::map<std::string, size_t> OperationsOf(const ordered_json& model) {
  std::map<std::string, size_t> places;
  size_t next = 0;
  if (TextIn(model, "class_name") == "Sequential") {
    const std::vector<const ordered_json*> layers = LayersOf(model);
    const std::vector<size_t> before = MaskOperationsBefore(layers);
    // The model has an InputLayer whether its configuration says so or not.
    next = 1;
    for (size_t i = 0; i < layers.size(); ++i) {
      next += before[i];
      places[TextIn(layers[i]->at("config"), "name")] = next++;
    }
    return places;
  }
  for (const ordered_json& layer : model.at("config").at("layers")) {
    places[TextIn(layer.at("config"), "name")] = next++;
  }
  return places;
}

// Collects the groups of weights of one model, a group for each layer, from the model's canonical
// JSON. Thread-compatible.
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
    Add(Where(), {TextIn(model.at("config"), "name"), ""}, "");
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
  // The name of a layer or a part, and the class whose attributes have its variables.
  struct Named {
    std::string name;
    std::string type;
  };

  // Adds a group with the variables whose names are `owner` and one part more. An owner that comes
  // up again, as of two layers of one name, has nothing left.
  void Add(const Where& where, const Named& named, const std::string& owner) {
    WeightGroup& group = groups_.emplace_back();
    group.path = where.path;
    if (!is_keras2_) group.name = named.name;
    group.tracked = where.tracked;
    group.tracked3 = where.tracked3;
    const auto found = by_owner_.find(owner);
    if (found == by_owner_.end()) return;
    group.variables = std::move(found->second);
    by_owner_.erase(found);
    for (const std::string& variable : group.variables) {
      const std::string attribute = variable.substr(variable.rfind('/') + 1);
      group.attributes2.push_back(AttributeInKeras2(named.type, attribute));
      group.attributes3.push_back(AttributeInKeras3(named.type, attribute));
    }
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
    const std::map<std::string, size_t> operations = OperationsOf(model);
    const bool is_sequential = TextIn(model, "class_name") == "Sequential";
    const std::string around3 =
        Joined(where.tracked3, is_sequential ? "_functional/_operations" : "_operations");
    int with_weights = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string name = TextIn(layers[i]->at("config"), "name");
      Where layer{Joined(where.path, paths[i]), "",
                  Joined(around3, absl::StrCat(operations.at(name)))};
      if (HasWeights(Joined(owner, name))) {
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
    Add(where, {TextIn(config, "name"), type}, owner);
    AddParts(type, where, owner);
    for (const InnerLayer& inner : kInnerLayers) {
      if (inner.wrapper != type || !config.contains(inner.key)) continue;
      AddLayer(config.at(inner.key), where.Inside(inner.attribute), owner);
    }
    if (type == "RNN") AddCell(config.at("cell"), where.Inside("cell"), owner);
    if (IsModel(layer)) AddLayersOf(layer, where, owner);
  }

  // Adds the parts of a layer that have variables.
  void AddParts(const std::string& type, const Where& where, const std::string& layer) {
    for (const LayerPart& part : kParts) {
      const std::string owner = Joined(layer, part.name);
      if (part.layer != type || !by_owner_.contains(owner)) continue;
      // Keras 2 uses the same names in the object graph.
      Where inside = where.Inside(part.keras2);
      if (!is_keras2_) inside.path = Joined(where.path, part.keras3);
      // The parts of attentions are EinsumDense, those of RNNs cells.
      const bool is_cell = part.keras3 == "cell";
      Add(inside, {std::string(part.name), is_cell ? "" : "EinsumDense"}, owner);
    }
  }

  // Adds the cell of an RNN. The cells of StackedRNNCells have groups that are numbered by class,
  // like those of layers.
  void AddCell(const ordered_json& cell, const Where& where, const std::string& around) {
    const ordered_json& config = cell.at("config");
    const std::string owner = Joined(around, TextIn(config, "name"));
    Add(where, {TextIn(config, "name"), TextIn(cell, "class_name")}, owner);
    if (!config.contains("cells")) return;
    const Where cells = where.Inside("cells");
    std::map<std::string, int> counts;
    int number = 0;
    for (const ordered_json& one : config.at("cells")) {
      const std::string group = KerasSnakeCase(TextIn(one, "class_name"));
      const int count = counts[group]++;
      const std::string counted = count == 0 ? group : absl::StrCat(group, "_", count);
      const std::string position = absl::StrCat(number++);
      AddCell(one,
              {Joined(cells.path, counted), Joined(cells.tracked, position),
               Joined(cells.tracked3, position)},
              owner);
    }
  }

  const bool is_keras2_;
  const std::set<std::string> names_;
  std::map<std::string, std::vector<std::string>> by_owner_;  // variables without a group
  std::vector<WeightGroup> groups_;
};

// Returns whether a layer of a model makes a mask, or one of a model in it.
bool HasMasks(const ordered_json& model) {
  return absl::c_any_of(model.at("config").at("layers"), [](const ordered_json& layer) {
    return MakesMask(layer) || (IsModel(layer) && HasMasks(layer));
  });
}

// Returns why the operations of a model in Keras 3 cannot be counted, or "". Keras 3 lists them in
// the configurations of functional models alone, and in its own; those of a Sequential model are
// counted here, unless the mask comes out of a model in it.
std::string WhyNotCounted(const ordered_json& model, bool lists_operations) {
  const bool is_sequential = TextIn(model, "class_name") == "Sequential";
  for (const ordered_json& layer : model.at("config").at("layers")) {
    const ordered_json& config = layer.at("config");
    const std::string name = Excerpt(TextIn(config, "name"));
    const bool has_unlisted =
        is_sequential ? IsModel(layer) && HasMasks(layer) : !lists_operations && MakesMask(layer);
    if (has_unlisted) {
      return absl::StrCat("the layer '", name,
                          "' makes a mask, for which Keras 3 adds operations to the model");
    }
    if (TextIn(layer, "class_name") == "RNN" && config.at("cell").at("config").contains("cells")) {
      return absl::StrCat("the layer '", name, "' has stacked cells, which Keras 3 does not track");
    }
    if (!IsModel(layer)) continue;
    std::string why = WhyNotCounted(layer, lists_operations);
    if (!why.empty()) return why;
  }
  return "";
}

// Returns the model with its layers in Keras's order.
ordered_json OrderedModel(const ModelSpec& model) {
  ordered_json form = ModelToJson(model);
  // Keras has ordered the layers of a model that it wrote.
  if (model.file_form.config.empty()) OrderAsKeras(form);
  return form;
}

}  // namespace

std::string WhyNoKeras3Ways(const ModelSpec& model) {
  return WhyNotCounted(ModelToJson(model), model.file_form.keras == 3);
}

absl::StatusOr<std::vector<WeightGroup>> KerasWeightGroups(
    const ModelSpec& model, absl::Span<const std::string> variables) {
  return GroupCollector(model.file_form.keras == 2, variables).Collect(OrderedModel(model));
}

}  // namespace cohort
