#include "coordinator/network/model_config.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Returns whether both shapes may be those of one example. A dimension of -1 may have any size.
bool MayAgree(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](int64_t x, int64_t y) { return x == y || x < 0 || y < 0; });
}

// Takes the shape that a layer declares for its input. tf.keras 2 writes this shape twice: in an
// InputLayer, whose shape counts, and in the layer after it, where an Embedding leaves lengths
// open.
void TakeInputShape(std::vector<int64_t> shape, const std::string& path, JsonErrors& errors,
                    std::vector<LayerSpec>& layers) {
  if (layers.empty()) {
    layers.push_back(MakeInputLayer({std::move(shape)}));
    return;
  }
  const InputType* const input = layers.back().input();
  if (input == nullptr) {
    errors.Add(path, "only the first layer may give the shape of its input");
  } else if (!MayAgree(input->shape, shape)) {
    errors.Add(path, absl::StrCat("says that an example is ", ShapeText(shape),
                                  ", and the InputLayer before it ", ShapeText(input->shape),
                                  "; leave one of the two out"));
  }
}

// Appends the layer. If the first layer gives an input shape, an InputLayer is put before it.
void AppendLayer(const json& value, const std::string& path, JsonErrors& errors,
                 const LayerContext& context, std::vector<LayerSpec>& layers) {
  ReadLayerResult read = ReadLayer({path, errors, &value}, context);
  if (!read.layer) return;
  if (read.input_shape) {
    TakeInputShape(*std::move(read.input_shape), read.config_path, errors, layers);
  }
  if (read.layer->input() != nullptr && !layers.empty()) {
    errors.Add(path, "an InputLayer may only be the first layer");
  }
  if (read.layer->type->kind == LayerKind::kList) {
    errors.Add(path, absl::StrCat("a ", read.layer->type->name,
                                  " takes several inputs; use a model of class Functional"));
  }
  layers.push_back(*std::move(read.layer));
}

// Returns Keras's name of a layer without its number: "max_pooling2d" for a MaxPooling2D.
std::string Stem(const LayerSpec& layer) {
  if (layer.input() != nullptr) return "input";
  std::string stem;
  for (const char c : absl::string_view(layer.type->name)) {
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
    const std::string& name = layer.name;
    if (!name.empty() && !used.insert(name).second) {
      errors.Add(path, absl::StrCat("two layers are named '", name, "'; rename one"));
    }
  }
  std::map<std::string, int> counts;
  for (LayerSpec& layer : layers) {
    std::string& name = layer.name;
    const std::string stem = Stem(layer);
    while (name.empty()) {
      const int count = counts[stem]++;
      const std::string unused = count == 0 ? stem : absl::StrCat(stem, "_", count);
      if (used.insert(unused).second) name = unused;
    }
  }
}

// Connects the layers of a Sequential model to a chain.
void Chain(ModelSpec& model) {
  TensorRef last = {TensorRef::kModelInput, 0};
  for (size_t i = 0; i < model.layers.size(); ++i) {
    LayerCall call{.layer = i};
    if (model.layers[i].input() != nullptr) {
      model.inputs = {i};
    } else {
      call.inputs = {{last}};
    }
    model.calls.push_back(std::move(call));
    last = {i, 0};
  }
  model.outputs = {last};
}

}  // namespace

void ReadLayerList(const json& layers, const std::string& path, JsonErrors& errors,
                   const LayerContext& context, ModelSpec& model) {
  if (!layers.is_array() || layers.empty() || layers.size() > kLayersMax) {
    errors.Add(path, absl::StrCat("is ", JsonExcerpt(layers), "; it must be a list of 1 to ",
                                  kLayersMax, " layers"));
    return;
  }
  const size_t errors_before = errors.size();
  for (size_t i = 0; i < layers.size(); ++i) {
    AppendLayer(layers[i], JoinKeys(path, absl::StrCat(i)), errors, context, model.layers);
  }
  // If the model has one layer more than the file, AppendLayer has added an InputLayer.
  model.file_form.implies_input = model.layers.size() > layers.size();
  NameLayers(path, errors, model.layers);
  // After an error the layers are not connected, because some may be missing.
  if (errors.size() == errors_before) Chain(model);
}

void ReadModelConfig(ObjectReader& config, bool functional, const LayerContext& context,
                     ModelSpec& model) {
  model.sequential = !functional;
  model.keras = context.keras;
  config.Ignore("dtype");
  if (functional) return ReadFunctional(config, context, model);
  config.Ignore("build_input_shape");
  const json* const layers = config.Require("layers");
  if (layers == nullptr) return;
  ReadLayerList(*layers, JoinKeys(config.path(), "layers"), config.errors(), context, model);
}

}  // namespace cohort
