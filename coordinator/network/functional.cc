// Reads functional models: their layers, what each call of a layer is given, and the model's inputs
// and outputs.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/network/inbound_node.h"
#include "coordinator/network/model_config.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// A call of a layer whose inputs are still names.
struct UnresolvedCall {
  size_t layer = 0;
  int64_t node = 0;
  std::vector<TensorName> inputs = {};
  LayerCall call = {};  // the call, without its inputs' tensors
};

// Inputs or outputs of the model. Names are empty unless the model has a dict of them.
struct ModelEnds {
  std::vector<TensorName> tensors;
  std::vector<std::string> names;
};

// Reads the layers one after another, and then connects their calls with the inputs. Lives for one
// ReadFunctional. Thread-compatible.
class FunctionalReader {
 public:
  FunctionalReader(const LayerContext& context, ModelSpec& model, JsonErrors& errors)
      : context_(context), model_(model), errors_(errors) {}

  void AddLayer(const json& value, const std::string& path) {
    // Keys beside the class form are removed, so that ReadLayer does not report them as unknown.
    json form = value;
    const json name = Take(form, "name");
    const json nodes = Take(form, "inbound_nodes");
    const bool has_module = context_.names_modules || (form.is_object() && form.contains("module"));
    const std::string nodes_path = JoinKeys(path, "inbound_nodes");
    const std::vector<InboundNode> read_nodes = ReadNodes(nodes, nodes_path);
    LayerContext context = context_;
    context.call = read_nodes.empty() ? "" : read_nodes[0].form;
    ReadLayerResult read = ReadLayer({path, errors_, &form}, context);
    if (!read.layer || !NameLayer(name, path, *read.layer)) return;
    const bool is_input = read.layer->input() != nullptr;
    model_.layers.push_back(*std::move(read.layer));
    if (is_input) {
      if (!nodes.is_null() && nodes != json::array()) {
        errors_.Add(nodes_path, "must be [], because nothing goes into it");
      }
      // An InputLayer has one call, which has no inputs.
      const size_t layer = model_.layers.size() - 1;
      unresolved_.push_back({.layer = layer, .call = {.layer = layer}});
      return;
    }
    AddCalls(read_nodes, nodes, nodes_path, has_module);
  }

  // Connects the inputs and outputs of the model, after all layers are read.
  void Connect(const json& inputs, const std::string& inputs_path, const json& outputs,
               const std::string& outputs_path) {
    NumberNodesFromZero();
    if (!Resolve()) return;
    const auto input_ends = ReadEnds(inputs, inputs_path);
    const auto output_ends = ReadEnds(outputs, outputs_path);
    if (!input_ends || !output_ends) return;
    for (const TensorName& tensor : input_ends->tensors) {
      const std::optional<TensorRef> ref = Find(tensor);
      if (!ref) return;
      const size_t call = ref->call;
      // An InputLayer may be an input of the model only once.
      if (!IsInput(call) || std::count(model_.inputs.begin(), model_.inputs.end(), call) > 0) {
        errors_.Add(tensor.path, absl::StrCat("names '", tensor.layer,
                                              "', which is not an InputLayer, or is named twice"));
        return;
      }
      model_.inputs.push_back(call);
    }
    for (const TensorName& tensor : output_ends->tensors) {
      const std::optional<TensorRef> ref = Find(tensor);
      if (!ref) return;
      model_.outputs.push_back(*ref);
    }
    model_.input_names = input_ends->names;
    model_.output_names = output_ends->names;
    CheckAllUsed(inputs_path, outputs_path);
  }

 private:
  // Removes a key and returns its value, or null if the key is absent.
  static json Take(json& form, const char* key) {
    if (!form.is_object() || !form.contains(key)) return nullptr;
    json value = std::move(form[key]);
    form.erase(key);
    return value;
  }

  // Reads a layer's name, which is in the config, beside the config, or in both.
  bool NameLayer(const json& name, const std::string& path, LayerSpec& layer) {
    std::string& own = layer.name;
    if (own.empty() && name.is_string()) own = name.get<std::string>();
    if (own.empty() || (!name.is_null() && name != own)) {
      errors_.Add(
          JoinKeys(path, "name"),
          absl::StrCat("is ", JsonExcerpt(name), "; it must be the name in config, ",
                       own.empty() ? "which is missing" : absl::StrCat("'", Excerpt(own), "'")));
      return false;
    }
    if (!by_name_.emplace(own, model_.layers.size()).second) {
      errors_.Add(JoinKeys(path, "name"),
                  absl::StrCat("two layers are named '", Excerpt(own), "'"));
      return false;
    }
    return true;
  }

  std::vector<InboundNode> ReadNodes(const json& nodes, const std::string& path) {
    std::vector<InboundNode> read;
    if (!nodes.is_array() || nodes.size() > kCallsMax) return read;
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::optional<InboundNode> node =
          ReadInboundNode(nodes[i], JoinKeys(path, absl::StrCat(i)), errors_);
      if (!node) return {};
      read.push_back(*std::move(node));
    }
    return read;
  }

  // Returns whether Keras 3 wrote the node. Modules do not tell, because late versions of Keras 2
  // write them too; the form of the node does.
  bool IsKeras3(const InboundNode& node, bool has_module) const {
    if (context_.version_is_known) return !context_.keras.IsKeras2();
    return has_module && node.is_object;
  }

  // Adds one unresolved call for each inbound node of the last layer.
  void AddCalls(const std::vector<InboundNode>& nodes, const json& value, const std::string& path,
                bool has_module) {
    if (nodes.empty() || unresolved_.size() + nodes.size() > kCallsMax) {
      // A node that cannot be read has been reported.
      if (value.is_array() && !value.empty() && value.size() <= kCallsMax) return;
      errors_.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                     "; it must be a list that says what the layer is given"));
      return;
    }
    const size_t layer = model_.layers.size() - 1;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const InboundNode& node = nodes[i];
      UnresolvedCall call{layer, static_cast<int64_t>(i), node.tensors, {.layer = layer}};
      if (!CheckArguments(node, JoinKeys(path, absl::StrCat(i)))) continue;
      if (model_.layers[layer].type->kind == LayerKind::kOperation && node.form != nodes[0].form) {
        errors_.Add(path, "calls one operation with different arguments");
        continue;
      }
      // A `training` in a file of Keras 3 is ignored: Keras 3 writes false for each Dropout, even
      // if the user did not ask for it, and its fit() overrides the value.
      if (!IsKeras3(node, has_module)) call.call.training = node.training;
      call.call.flags = node.flags;
      if (!node.is_plain) call.call.arguments = node.form;
      for (const std::string& argument : node.arguments) {
        call.call.inputs.push_back({{}, argument});
      }
      unresolved_.push_back(std::move(call));
    }
  }

  // Checks that the last layer's class takes the arguments of the node.
  bool CheckArguments(const InboundNode& node, const std::string& path) {
    const LayerSpec& layer = model_.layers.back();
    const LayerClass& type = *layer.type;
    const bool is_list = std::count(node.arguments.begin(), node.arguments.end(), "") != 1;
    if (node.tensors.empty() || (is_list && type.kind == LayerKind::kOneInput)) {
      errors_.Add(path,
                  absl::StrCat("gives '", layer.name, "' ", node.tensors.size(), " tensors, not ",
                               type.kind == LayerKind::kOneInput ? "one" : "one or more"));
      return false;
    }
    if (type.kind == LayerKind::kOperation) return true;
    std::vector<std::string> given = node.arguments;
    given.insert(given.end(), node.flags.begin(), node.flags.end());
    given.insert(given.end(), node.constants.begin(), node.constants.end());
    bool known = true;
    for (const std::string& argument : given) {
      if (argument.empty() || type.Takes(argument)) continue;
      errors_.Add(path, absl::StrCat("gives '", layer.name, "' the argument '", argument,
                                     "', which ", type.name, " does not take here"));
      known = false;
    }
    return known;
  }

  // Numbers the calls of a nested model from 0. Keras 2 counts the call that builds the nested
  // model as node 0 and does not list it, so references begin at 1.
  void NumberNodesFromZero() {
    if (!context_.version_is_known || !context_.keras.IsKeras2()) return;
    std::map<std::string, bool> has_zero;
    for (const UnresolvedCall& call : unresolved_) {
      for (const TensorName& input : call.inputs) {
        if (input.node == 0) has_zero[input.layer] = true;
      }
    }
    for (const LayerSpec& layer : model_.layers) {
      if (layer.type->kind == LayerKind::kModel && !has_zero[layer.name]) {
        from_one_.insert(layer.name);
      }
    }
    for (UnresolvedCall& call : unresolved_) {
      for (TensorName& input : call.inputs) Renumber(input);
    }
  }

  void Renumber(TensorName& name) const {
    if (name.node > 0 && from_one_.contains(name.layer)) --name.node;
  }

  // Reads input_layers or output_layers: a tensor, a list of tensors, or an object of tensors by
  // name.
  std::optional<ModelEnds> ReadEnds(const json& value, const std::string& path) {
    ModelEnds ends;
    const bool one = value.is_array() && !value.empty() && value[0].is_string();
    const bool several = (value.is_array() || value.is_object()) && !value.empty();
    if (!one && !several) {
      errors_.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                     "; it must be [layer's name, 0, 0] or a list of such"));
      return std::nullopt;
    }
    const json list = one ? json::array({value}) : value;
    for (const auto& item : list.items()) {
      auto tensor =
          ReadTensorName(item.value(), one ? path : JoinKeys(path, Excerpt(item.key())), errors_);
      if (!tensor) return std::nullopt;
      Renumber(*tensor);
      ends.tensors.push_back(*std::move(tensor));
      if (value.is_object()) ends.names.push_back(item.key());
    }
    return ends;
  }

  // Puts the calls into an order in which each call comes after the calls that give its inputs.
  // Returns false after an error.
  bool Resolve() {
    // Unknown names are reported first, so that only a circle can keep a call from being ready.
    for (const UnresolvedCall& call : unresolved_) {
      for (const TensorName& input : call.inputs) {
        if (!Exists(input)) return false;
      }
    }
    std::vector<UnresolvedCall> left = std::move(unresolved_);
    while (!left.empty()) {
      // Each pass appends the calls whose inputs are all there.
      std::vector<UnresolvedCall> later;
      for (UnresolvedCall& call : left) {
        const bool ready =
            std::all_of(call.inputs.begin(), call.inputs.end(), [&](const TensorName& input) {
              return resolved_.contains({by_name_.at(input.layer), input.node});
            });
        if (ready) {
          Append(call);
        } else {
          later.push_back(std::move(call));
        }
      }
      // If a pass appends no call, the layers form a circle.
      if (later.size() == left.size()) {
        errors_.Add(later[0].inputs[0].path, "closes a circle of layers");
        return false;
      }
      left = std::move(later);
    }
    return true;
  }

  void Append(const UnresolvedCall& call) {
    LayerCall resolved = call.call;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const TensorName& input = call.inputs[i];
      resolved.inputs[i].tensor = {resolved_.at({by_name_.at(input.layer), input.node}),
                                   static_cast<size_t>(input.tensor)};
    }
    resolved_[{call.layer, call.node}] = model_.calls.size();
    model_.calls.push_back(std::move(resolved));
  }

  // Returns whether the model has the layer, the node and the output that the tensor's name says;
  // reports an error if not.
  bool Exists(const TensorName& tensor) {
    const auto layer = by_name_.find(tensor.layer);
    if (layer == by_name_.end()) {
      std::vector<std::string> known;
      for (const auto& entry : by_name_) known.push_back(entry.first);
      errors_.Add(tensor.path, UnknownName("layer of the model", tensor.layer, known));
      return false;
    }
    const auto used = [&](const UnresolvedCall& call) {
      return call.layer == layer->second && call.node == tensor.node;
    };
    if (std::any_of(unresolved_.begin(), unresolved_.end(), used) ||
        resolved_.contains({layer->second, tensor.node})) {
      return true;
    }
    errors_.Add(tensor.path, absl::StrCat("names use ", tensor.node, " of '", tensor.layer,
                                          "', which its inbound_nodes do not have"));
    return false;
  }

  std::optional<TensorRef> Find(const TensorName& tensor) {
    if (!Exists(tensor)) return std::nullopt;
    return TensorRef{resolved_.at({by_name_.at(tensor.layer), tensor.node}),
                     static_cast<size_t>(tensor.tensor)};
  }

  bool IsInput(size_t call) const {
    return model_.layers[model_.calls[call].layer].input() != nullptr;
  }

  // Reports layers that the output does not depend on, and InputLayers that are not inputs.
  void CheckAllUsed(const std::string& inputs_path, const std::string& outputs_path) {
    std::vector<bool> used(model_.calls.size(), false);
    for (const TensorRef& output : model_.outputs) used[output.call] = true;
    // Calls come after their inputs, so one pass backwards reaches all calls that are used.
    for (size_t i = model_.calls.size(); i-- > 0;) {
      if (!used[i]) continue;
      for (const CallInput& input : model_.calls[i].inputs) used[input.tensor.call] = true;
    }
    for (size_t i = 0; i < model_.calls.size(); ++i) {
      const std::string& name = model_.layers[model_.calls[i].layer].name;
      if (!used[i]) {
        errors_.Add(outputs_path, absl::StrCat("does not depend on layer '", name, "'"));
      } else if (IsInput(i) && std::count(model_.inputs.begin(), model_.inputs.end(), i) == 0) {
        errors_.Add(inputs_path, absl::StrCat("does not name InputLayer '", name, "'"));
      }
    }
  }

  const LayerContext& context_;
  ModelSpec& model_;
  JsonErrors& errors_;
  std::map<std::string, size_t> by_name_;
  std::vector<UnresolvedCall> unresolved_;
  std::set<std::string> from_one_;  // layers to which the file's node numbers begin at 1
  // Maps (layer, node) to the index of the call.
  std::map<std::pair<size_t, int64_t>, size_t> resolved_;
};

}  // namespace

void ReadFunctional(ObjectReader& config, const LayerContext& context, ModelSpec& model) {
  const json* layers = config.Require("layers");
  const json* inputs = config.Require("input_layers");
  const json* outputs = config.Require("output_layers");
  if (layers == nullptr || inputs == nullptr || outputs == nullptr) return;
  JsonErrors& errors = config.errors();
  const std::string path = JoinKeys(config.path(), "layers");
  if (!layers->is_array() || layers->empty() || layers->size() > kLayersMax) {
    errors.Add(path, absl::StrCat("is ", JsonExcerpt(*layers), "; it must be a list of 1 to ",
                                  kLayersMax, " layers"));
    return;
  }
  const size_t errors_before = errors.size();
  FunctionalReader reader(context, model, errors);
  for (size_t i = 0; i < layers->size(); ++i) {
    reader.AddLayer((*layers)[i], JoinKeys(path, absl::StrCat(i)));
  }
  // If a layer could not be read, connecting the layers would only repeat its errors.
  if (errors.size() > errors_before) return;
  reader.Connect(*inputs, JoinKeys(config.path(), "input_layers"), *outputs,
                 JoinKeys(config.path(), "output_layers"));
}

}  // namespace cohort
