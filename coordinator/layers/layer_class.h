#pragma once

// A row of the table of layer classes (classes/layer_classes.h), and a layer that was read by its
// row. A row has Keras's name of the class, a function that makes the layer, and what the code that
// calls layers needs to know of the class.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/program/product_precision.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/layers/keras_file.h"
#include "coordinator/layers/layer.h"

namespace cohort {

// The rule for the mask of the layer's first input (LayerValue::mask): it becomes the mask of
// the outputs (kPass), or is dropped (kStop), or the layer sets the outputs' masks itself (kOwn).
enum class MaskRule { kPass, kStop, kOwn };

// The form of the calls of a class.
enum class LayerKind {
  kOneInput,   // one tensor, and further ones by the names in LayerClass::arguments
  kSeveral,    // one tensor, or a list of them
  kList,       // a list of tensors
  kLookup,     // one tensor of ids, which are looked up in a table
  kOperation,  // a function, whose arguments are in its one call (LayerContext::call)
  kModel,      // a model as a layer
};

struct LayerClass {
  const char* name;  // Keras's class name, such as "Dense"
  std::unique_ptr<Layer> (*make)(const char* name);
  MaskRule masks = MaskRule::kStop;
  LayerKind kind = LayerKind::kOneInput;
  // The names of the arguments that a call may have beside the first one, `mask` and `training`,
  // separated by spaces. "#1" is the second argument by position.
  const char* arguments = "";
  const char* module = "";  // an operation's module, if a layer has the same class name

  bool Takes(absl::string_view argument) const;
};

// Makes a layer of the class `Class`. A row of the table has this function as `make`.
template <typename Class, auto... kArguments>
std::unique_ptr<Layer> MakeLayer(const char*) {
  return std::make_unique<Class>(kArguments...);
}

// Makes a layer of a class that computes differently by the name of Keras's class, `name`.
template <typename Class>
std::unique_ptr<Layer> MakeNamedLayer(const char* name) {
  return std::make_unique<Class>(name);
}

// A layer of a model. LayerSpecs can be copied, because a layer never changes after it was read.
// `config` is the canonical config as JSON text, without the layer's name: it has every key that
// decides what the layer computes, defaults included. Layers with equal names, classes and configs
// are equal.
struct LayerSpec {
  std::string name;  // unique within the model: "dense", "dense_1"
  const LayerClass* type = nullptr;
  std::shared_ptr<const Layer> layer;  // shared by copies of the model
  std::string config;
  bool trainable = true;
  // The penalty that the first output adds to the loss, and whether the penalty is divided by the
  // number of examples.
  RegularizerSpec activity = {};
  bool activity_per_example = true;
  ProductPrecision precision = ProductPrecision::kFloat32;

  const InputType* input() const { return layer->input(); }
  // Adds the nodes of a call, with products in the layer's precision.
  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const;

  friend bool operator==(const LayerSpec& a, const LayerSpec& b) {
    return a.name == b.name && a.type == b.type && a.config == b.config;
  }
};

struct ReadLayerResult {
  std::optional<LayerSpec> layer;  // the layer that was read; empty after an error
  // The shape of an example, if a layer other than an InputLayer gives the shape.
  std::optional<std::vector<int64_t>> input_shape;
  std::string config_path;
};
ReadLayerResult ReadLayer(const JsonPlace& place, const LayerContext& context);

// Returns the class form of a layer: {"class_name": "Dense", "config": {"name": "dense", ...}}.
nlohmann::ordered_json LayerToJson(const LayerSpec& layer);

}  // namespace cohort
