#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
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
  ReadLayerResult read = ReadLayer({path, errors, &value});
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

// Returns Keras's name of a layer without its number: "max_pooling2d" for a MaxPooling2D.
std::string Stem(const LayerSpec& layer) {
  if (std::holds_alternative<InputLayerSpec>(layer)) return "input";
  std::string stem;
  for (const char c : LayerClass(layer)) {
    if (absl::ascii_isupper(c) && !stem.empty() && absl::ascii_islower(stem.back())) stem += '_';
    stem += absl::ascii_tolower(c);
  }
  return stem;
}

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
    std::string& name = std::visit([](auto& one) -> std::string& { return one.name; }, layer);
    const std::string stem = Stem(layer);
    while (name.empty()) {
      const int count = counts[stem]++;
      const std::string unused = count == 0 ? stem : absl::StrCat(stem, "_", count);
      if (used.insert(unused).second) name = unused;
    }
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
  // Only an InputLayer that no layer of the file stands for makes more layers than the file has.
  model.file_form.implies_input = model.layers.size() > layers.size();
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

ordered_json ModelToJson(const ModelSpec& model) {
  if (model.functional()) return FunctionalToJson(model);
  ordered_json layers = ordered_json::array();
  for (const LayerSpec& layer : model.layers) layers.push_back(LayerToJson(layer));
  ordered_json config = {{"name", model.name}, {"layers", std::move(layers)}};
  return {{"class_name", "Sequential"}, {"config", std::move(config)}};
}

}  // namespace

void ReadModel(const JsonPlace& place, ModelSpec& model) {
  if (place.record != nullptr) {
    *place.record = ModelToJson(model);
    return;
  }
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return;
  const KerasFile file = FileOf(*place.value);
  model.file_form.keras = file.major_version.value_or(file.has_module ? 3 : 0);
  // Before TensorFlow 2.2 a functional model had the class name Model.
  const bool functional = form.class_name == "Functional" || form.class_name == "Model";
  if (!functional && form.class_name != "Sequential") {
    return place.errors.Add(place.path,
                            UnknownName("model", form.class_name, {"Sequential", "Functional"}));
  }
  // Before Keras 2.2.3 the config of a Sequential model was the list of its layers.
  if (!functional && form.config != nullptr && form.config->is_array()) {
    model.file_form.config_is_list = true;
    return ReadLayers(*form.config, form.config_path, place.errors, model);
  }
  ObjectReader config = form.Config("");
  if (functional) model.name = "functional";
  config.String("name", &model.name);
  config.OnlyNeutral("trainable", true);
  config.Ignore("dtype");
  if (functional) {
    ReadFunctional(config, file, model);
  } else {
    ReadSequential(config, model);
  }
}

}  // namespace cohort
