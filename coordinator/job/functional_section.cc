#include "coordinator/job/functional_section.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/layer_section.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

constexpr size_t kCallsMax = 10000;

// Keras's name of a tensor: output 0 of use number `node` of a layer.
struct TensorName {
  std::string layer;
  int64_t node = 0;
  std::string path;  // path of the field that holds the name
};

// A use of a layer whose inputs are still names.
struct UnresolvedCall {
  size_t layer = 0;
  int64_t node = 0;
  std::vector<TensorName> inputs = {};
  bool training = true;  // LayerCall::training
};

// Reads [layer, node, tensor]. Keras 2's inbound nodes have a fourth entry, which the caller reads.
std::optional<TensorName> ReadTensorName(const json& value, const std::string& path,
                                         JsonErrors& errors) {
  const bool valid = value.is_array() && value.size() >= 3 && value[0].is_string() &&
                     value[1].is_number_integer() && value[1] >= 0 && value[2] == 0;
  if (valid) return TensorName{value[0].get<std::string>(), value[1].get<int64_t>(), path};
  errors.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                "; it must be [layer's name, number of its use from 0, 0]"));
  return std::nullopt;
}

// Reads the arguments of a layer's call. Keras 3 writes `training` false for each Dropout, even if
// the user did not ask for it, and its fit ignores the value; so a false from Keras 3 is ignored
// too.
void ReadArguments(const json& value, const std::string& path, bool is_keras3, JsonErrors& errors,
                   UnresolvedCall& call) {
  ObjectReader kwargs({path, errors, &value});
  const json* const training = kwargs.Find("training");
  kwargs.OnlyNeutral("training", false);
  if (training != nullptr && *training == false && !is_keras3) call.training = false;
  kwargs.OnlyNeutral("mask", nullptr);
  kwargs.Finish();
}

// Reads the layers one after another, and then connects the uses of layers with their inputs. Lives
// for one ReadFunctional. Thread-compatible.
class FunctionalReader {
 public:
  FunctionalReader(const KerasFile& file, ModelSpec& model, JsonErrors& errors)
      : file_(file), model_(model), errors_(errors) {}

  void AddLayer(const json& value, const std::string& path) {
    // The keys beside the class form are taken out, so that ReadLayer knows all that are left.
    json form = value;
    const bool has_module = file_.has_module || (form.is_object() && form.contains("module"));
    const json name = Take(form, "name");
    const json nodes = Take(form, "inbound_nodes");
    ReadLayerResult read = ReadLayer({path, errors_, &form});
    if (!read.layer) return;
    if (read.input_shape) {
      errors_.Add(read.config_path, "only an InputLayer gives a shape in a functional model");
    }
    if (!NameLayer(name, path, *read.layer)) return;
    const bool is_input = std::holds_alternative<InputLayerSpec>(*read.layer);
    model_.layers.push_back(*std::move(read.layer));
    if (is_input) {
      if (!nodes.is_null() && nodes != json::array()) {
        errors_.Add(JoinPath(path, "inbound_nodes"), "must be [], because nothing goes into it");
      }
      // An InputLayer has one use, which has no inputs.
      unresolved_.push_back({model_.layers.size() - 1});
      return;
    }
    AddCalls(nodes, JoinPath(path, "inbound_nodes"), has_module);
  }

  // Connects the inputs and outputs of the model, after all layers are read.
  void Connect(const json& inputs, const std::string& inputs_path, const json& outputs,
               const std::string& outputs_path) {
    if (!Resolve()) return;
    const auto input_tensors = ReadEnds(inputs, inputs_path);
    const auto output_tensors = ReadEnds(outputs, outputs_path);
    if (!input_tensors || !output_tensors) return;
    for (const TensorName& tensor : *input_tensors) {
      const std::optional<size_t> call = Find(tensor);
      if (!call) return;
      // An InputLayer may be an input of the model only once.
      if (!IsInput(*call) || std::count(model_.inputs.begin(), model_.inputs.end(), *call) > 0) {
        errors_.Add(tensor.path, absl::StrCat("names '", tensor.layer,
                                              "', which is not an InputLayer, or is named twice"));
        return;
      }
      model_.inputs.push_back(*call);
    }
    if (output_tensors->size() != 1) {
      errors_.Add(outputs_path, absl::StrCat("names ", output_tensors->size(),
                                             " outputs; a model that is trained here has one"));
      return;
    }
    const std::optional<size_t> output = Find(output_tensors->front());
    if (!output) return;
    model_.output = *output;
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
    std::string& own = std::visit([](auto& one) -> std::string& { return one.name; }, layer);
    if (own.empty() && name.is_string()) own = name.get<std::string>();
    if (own.empty() || (!name.is_null() && name != own)) {
      errors_.Add(
          JoinPath(path, "name"),
          absl::StrCat("is ", JsonExcerpt(name), "; it must be the name in config, ",
                       own.empty() ? "which is missing" : absl::StrCat("'", Excerpt(own), "'")));
      return false;
    }
    if (!by_name_.emplace(own, model_.layers.size()).second) {
      errors_.Add(JoinPath(path, "name"),
                  absl::StrCat("two layers are named '", Excerpt(own), "'"));
      return false;
    }
    return true;
  }

  // Returns whether Keras 3 wrote the node. A Keras 2 that writes modules too is told apart by the
  // form of the node.
  bool IsKeras3(const json& node, bool has_module) const {
    if (file_.major_version.has_value()) return *file_.major_version >= 3;
    return has_module && node.is_object();
  }

  // Adds one unresolved call for each inbound node of the last layer.
  void AddCalls(const json& nodes, const std::string& path, bool has_module) {
    if (!nodes.is_array() || nodes.empty() || unresolved_.size() + nodes.size() > kCallsMax) {
      errors_.Add(path, absl::StrCat("is ", JsonExcerpt(nodes),
                                     "; it must be a list that says what the layer is given"));
      return;
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      UnresolvedCall call{model_.layers.size() - 1, static_cast<int64_t>(i)};
      const std::string node_path = JoinPath(path, absl::StrCat(i));
      const bool is_keras3 = IsKeras3(nodes[i], has_module);
      const bool read = nodes[i].is_array() ? ReadListNode(nodes[i], node_path, is_keras3, call)
                                            : ReadObjectNode(nodes[i], node_path, is_keras3, call);
      if (!read) continue;
      // Only a Concatenate layer takes several tensors.
      const bool joins = std::holds_alternative<ConcatenateSpec>(model_.layers[call.layer]);
      if (call.inputs.empty() || (!joins && call.inputs.size() != 1)) {
        errors_.Add(node_path, absl::StrCat("gives '", LayerName(model_.layers[call.layer]), "' ",
                                            call.inputs.size(), " tensors, not ",
                                            joins ? "one or more" : "one"));
        continue;
      }
      unresolved_.push_back(std::move(call));
    }
  }

  // Reads a node of Keras 2: a list of [layer, node, tensor, kwargs].
  bool ReadListNode(const json& node, const std::string& path, bool is_keras3,
                    UnresolvedCall& call) {
    for (size_t i = 0; i < node.size(); ++i) {
      const std::string tensor_path = JoinPath(path, absl::StrCat(i));
      auto tensor = ReadTensorName(node[i], tensor_path, errors_);
      if (!tensor) return false;
      if (node[i].size() > 3) {
        ReadArguments(node[i][3], JoinPath(tensor_path, "3"), is_keras3, errors_, call);
      }
      call.inputs.push_back(*std::move(tensor));
    }
    return true;
  }

  // Reads a node of Keras 3: {"args": [a tensor, or a list of tensors], "kwargs": {}}.
  bool ReadObjectNode(const json& node, const std::string& path, bool is_keras3,
                      UnresolvedCall& call) {
    ObjectReader reader({path, errors_, &node});
    const json* args = reader.Require("args");
    if (const json* kwargs = reader.Find("kwargs")) {
      ReadArguments(*kwargs, JoinPath(path, "kwargs"), is_keras3, errors_, call);
    }
    reader.Finish();
    if (args == nullptr) return false;
    const std::string args_path = JoinPath(path, "args");
    if (!args->is_array() || args->size() != 1) {
      errors_.Add(args_path, absl::StrCat("is ", JsonExcerpt(*args),
                                          "; it must be one tensor, or "
                                          "one list of tensors"));
      return false;
    }
    const json& arg = (*args)[0];
    const std::string arg_path = JoinPath(args_path, "0");
    if (!arg.is_array()) return ReadKerasTensor(arg, arg_path, call.inputs);
    for (size_t i = 0; i < arg.size(); ++i) {
      if (!ReadKerasTensor(arg[i], JoinPath(arg_path, absl::StrCat(i)), call.inputs)) return false;
    }
    return true;
  }

  bool ReadKerasTensor(const json& value, const std::string& path,
                       std::vector<TensorName>& inputs) {
    const ClassForm form = ReadClassForm({path, errors_, &value}, "");
    if (form.class_name != "__keras_tensor__" || form.config == nullptr) {
      errors_.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                     "; it must be of class '__keras_tensor__'"));
      return false;
    }
    ObjectReader config = form.Config("");
    // The shape and type of a tensor follow from the layers.
    config.Ignore("shape");
    config.Ignore("dtype");
    const json* history = config.Require("keras_history");
    config.Finish();
    if (history == nullptr) return false;
    auto tensor = ReadTensorName(*history, JoinPath(form.config_path, "keras_history"), errors_);
    if (!tensor) return false;
    inputs.push_back(*std::move(tensor));
    return true;
  }

  // Reads input_layers or output_layers: a tensor, a list of tensors, or an object of tensors by
  // name.
  std::optional<std::vector<TensorName>> ReadEnds(const json& value, const std::string& path) {
    std::vector<TensorName> ends;
    const bool one = value.is_array() && !value.empty() && value[0].is_string();
    const bool several = (value.is_array() || value.is_object()) && !value.empty();
    if (!one && !several) {
      errors_.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                     "; it must be [layer's name, 0, 0] or a list of such"));
      return std::nullopt;
    }
    if (one) {
      auto tensor = ReadTensorName(value, path, errors_);
      if (!tensor) return std::nullopt;
      return std::vector<TensorName>{*std::move(tensor)};
    }
    for (const auto& item : value.items()) {
      auto tensor = ReadTensorName(item.value(), JoinPath(path, Excerpt(item.key())), errors_);
      if (!tensor) return std::nullopt;
      ends.push_back(*std::move(tensor));
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
    LayerCall resolved{call.layer, {}, call.training};
    for (const TensorName& input : call.inputs) {
      resolved.inputs.push_back(resolved_.at({by_name_.at(input.layer), input.node}));
    }
    resolved_[{call.layer, call.node}] = model_.calls.size();
    model_.calls.push_back(std::move(resolved));
  }

  // Returns whether the model has the use of a layer that the tensor names; reports an error if
  // not.
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

  std::optional<size_t> Find(const TensorName& tensor) {
    if (!Exists(tensor)) return std::nullopt;
    return resolved_.at({by_name_.at(tensor.layer), tensor.node});
  }

  bool IsInput(size_t call) const {
    return std::holds_alternative<InputLayerSpec>(model_.layers[model_.calls[call].layer]);
  }

  // Reports layers that the output does not depend on, and InputLayers that are not inputs.
  void CheckAllUsed(const std::string& inputs_path, const std::string& outputs_path) {
    std::vector<bool> used(model_.calls.size(), false);
    used[model_.output] = true;
    // Calls come after their inputs, so one pass backwards reaches all calls that are used.
    for (size_t i = model_.calls.size(); i-- > 0;) {
      if (!used[i]) continue;
      for (const size_t input : model_.calls[i].inputs) used[input] = true;
    }
    for (size_t i = 0; i < model_.calls.size(); ++i) {
      const std::string& name = LayerName(model_.layers[model_.calls[i].layer]);
      if (!used[i]) {
        errors_.Add(outputs_path, absl::StrCat("does not depend on layer '", name, "'"));
      } else if (IsInput(i) && std::count(model_.inputs.begin(), model_.inputs.end(), i) == 0) {
        errors_.Add(inputs_path, absl::StrCat("does not name InputLayer '", name, "'"));
      }
    }
  }

  const KerasFile& file_;
  ModelSpec& model_;
  JsonErrors& errors_;
  std::map<std::string, size_t> by_name_;
  std::vector<UnresolvedCall> unresolved_;
  // Maps (layer, node) to the index of the call.
  std::map<std::pair<size_t, int64_t>, size_t> resolved_;
};

}  // namespace

void ReadFunctional(ObjectReader& config, const KerasFile& file, ModelSpec& model) {
  const json* layers = config.Require("layers");
  const json* inputs = config.Require("input_layers");
  const json* outputs = config.Require("output_layers");
  config.Finish();
  if (layers == nullptr || inputs == nullptr || outputs == nullptr) return;
  JsonErrors& errors = config.errors();
  const std::string path = JoinPath(config.path(), "layers");
  if (!layers->is_array() || layers->empty() || layers->size() > kLayersMax) {
    errors.Add(path, absl::StrCat("is ", JsonExcerpt(*layers), "; it must be a list of 1 to ",
                                  kLayersMax, " layers"));
    return;
  }
  const size_t errors_before = errors.size();
  FunctionalReader reader(file, model, errors);
  for (size_t i = 0; i < layers->size(); ++i) {
    reader.AddLayer((*layers)[i], JoinPath(path, absl::StrCat(i)));
  }
  // Connecting would only repeat errors of layers that could not be read.
  if (errors.size() > errors_before) return;
  reader.Connect(*inputs, JoinPath(config.path(), "input_layers"), *outputs,
                 JoinPath(config.path(), "output_layers"));
}

}  // namespace cohort
