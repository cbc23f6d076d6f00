#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/functional_section.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/layer_section.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Takes the shape that a layer declares for its input. tf.keras 2 writes this shape twice: in an
// InputLayer and in the layer after it.
void TakeInputShape(std::vector<int64_t> shape, const std::string& path, JsonErrors& errors,
                    std::vector<LayerSpec>& layers) {
  if (layers.empty()) {
    InputLayerSpec input;
    input.shape = std::move(shape);
    layers.push_back(std::move(input));
    return;
  }
  const auto* const input = std::get_if<InputLayerSpec>(&layers.back());
  if (input == nullptr) {
    errors.Add(path, "only the first layer may give the shape of its input");
  } else if (input->shape != shape) {
    errors.Add(path, absl::StrCat("says that an example is ", ShapeText(shape),
                                  ", and the InputLayer before it ", ShapeText(input->shape),
                                  "; leave one of the two out"));
  }
}

// Appends the layer. If the first layer gives an input shape, an InputLayer is put before it.
void AppendLayer(const json& value, const std::string& path, JsonErrors& errors,
                 std::vector<LayerSpec>& layers) {
  ReadLayerResult read = ReadLayer(value, path, errors);
  if (!read.layer) return;
  if (read.input_shape) {
    TakeInputShape(*std::move(read.input_shape), read.config_path, errors, layers);
  }
  if (std::holds_alternative<InputLayerSpec>(*read.layer) && !layers.empty()) {
    errors.Add(path, "an InputLayer may only be the first layer");
  }
  if (std::holds_alternative<ConcatenateSpec>(*read.layer)) {
    errors.Add(path, "a Concatenate takes several inputs; use a model of class Functional");
  }
  layers.push_back(*std::move(read.layer));
}

const char* Stem(const InputLayerSpec&) { return "input"; }
const char* Stem(const DenseSpec&) { return "dense"; }
const char* Stem(const DropoutSpec&) { return "dropout"; }
const char* Stem(const FlattenSpec&) { return "flatten"; }
const char* Stem(const ActivationSpec&) { return "activation"; }
const char* Stem(const ConcatenateSpec&) { return "concatenate"; }
const char* Stem(const EmbeddingSpec&) { return "embedding"; }
const char* Stem(const EmbeddingBagSpec&) { return "embedding_bag"; }
const char* Stem(const Conv2DSpec&) { return "conv2d"; }
const char* Stem(const Pooling2DSpec& layer) {
  return layer.kind == PoolKind::kMax ? "max_pooling2d" : "average_pooling2d";
}
const char* Stem(const GlobalAveragePooling2DSpec&) { return "global_average_pooling2d"; }
const char* Stem(const BatchNormalizationSpec&) { return "batch_normalization"; }
const char* Stem(const ReshapeSpec&) { return "reshape"; }

// Gives each layer without a name Keras's name: the class in lower case, then "_1", "_2" and so on.
void NameLayers(const std::string& path, JsonErrors& errors, std::vector<LayerSpec>& layers) {
  // Names that the user gave are taken first, so that no generated name repeats one.
  std::set<std::string> used;
  for (const LayerSpec& layer : layers) {
    const std::string& name = LayerName(layer);
    if (!name.empty() && !used.insert(name).second) {
      errors.Add(path, absl::StrCat("two layers are named '", name, "'; rename one"));
    }
  }
  std::map<std::string, int> counts;
  for (LayerSpec& layer : layers) {
    std::visit(
        [&](auto& one) {
          while (one.name.empty()) {
            const int count = counts[Stem(one)]++;
            const std::string name =
                count == 0 ? std::string(Stem(one)) : absl::StrCat(Stem(one), "_", count);
            if (used.insert(name).second) one.name = name;
          }
        },
        layer);
  }
}

void ReadLayers(const json& layers, const std::string& path, JsonErrors& errors, ModelSpec& model) {
  if (!layers.is_array() || layers.empty() || layers.size() > kLayersMax) {
    errors.Add(path, absl::StrCat("is ", JsonExcerpt(layers), "; it must be a list of 1 to ",
                                  kLayersMax, " layers"));
    return;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    AppendLayer(layers[i], JoinPath(path, absl::StrCat(i)), errors, model.layers);
  }
  NameLayers(path, errors, model.layers);
}

void ReadSequential(ObjectReader& config, ModelSpec& model) {
  config.Ignore("build_input_shape");
  const json* layers = config.Require("layers");
  config.Finish();
  if (layers == nullptr) return;
  ReadLayers(*layers, JoinPath(config.path(), "layers"), config.errors(), model);
}

// Reads which Keras wrote the model; a model written by hand has neither a version nor a module.
KerasFile FileOf(const json& value) {
  KerasFile file;
  if (!value.is_object()) return file;
  file.has_module = value.contains("module") && !value["module"].is_null();
  if (value.contains("keras_version") && value["keras_version"].is_string()) {
    const std::string version = value["keras_version"].get<std::string>();
    int major = 0;
    if (absl::SimpleAtoi(version.substr(0, version.find('.')), &major)) file.major_version = major;
  }
  return file;
}

}  // namespace

ModelSpec ReadModel(const json& value, const std::string& path, JsonErrors& errors) {
  ModelSpec model;
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return model;
  // Before TensorFlow 2.2 a functional model had the class name Model.
  const bool functional = form.class_name == "Functional" || form.class_name == "Model";
  if (!functional && form.class_name != "Sequential") {
    errors.Add(path, UnknownName("model", form.class_name, {"Sequential", "Functional"}));
    return model;
  }
  // Before Keras 2.2.3 the config of a Sequential model was the list of its layers.
  if (!functional && form.config != nullptr && form.config->is_array()) {
    ReadLayers(*form.config, form.config_path, errors, model);
    return model;
  }
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  if (functional) model.name = "functional";
  config.String("name", &model.name);
  config.OnlyNeutral("trainable", true);
  config.Ignore("dtype");
  if (functional) {
    ReadFunctional(config, FileOf(value), model);
  } else {
    ReadSequential(config, model);
  }
  return model;
}

ordered_json ModelToJson(const ModelSpec& model) {
  if (model.functional()) return FunctionalToJson(model);
  ordered_json layers = ordered_json::array();
  for (const LayerSpec& layer : model.layers) layers.push_back(LayerToJson(layer));
  return ClassFormToJson("Sequential", {{"name", model.name}, {"layers", std::move(layers)}});
}

ordered_json ClassFormToJson(const std::string& class_name, ordered_json config) {
  ordered_json form = ordered_json::object();
  form["class_name"] = class_name;
  form["config"] = std::move(config);
  return form;
}

}  // namespace cohort
