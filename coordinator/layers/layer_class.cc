#include "coordinator/layers/layer_class.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/python_code.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Upper bound on layers within layers.
constexpr int kDepthMax = 16;

// Names that releases of TensorFlow and Keras write for a class, with the name of the class.
constexpr std::pair<absl::string_view, const char*> kAliases[] = {
    {"BatchNormalizationV1", "BatchNormalization"},
    {"BatchNormalizationV2", "BatchNormalization"},
    {"UnifiedLSTM", "LSTM"},
    {"UnifiedGRU", "GRU"},
    {"GroupQueryAttention", "GroupedQueryAttention"},
    {"Model", "Functional"},
};

// Returns the class form with today's class name. The config of a Sequential model of Keras before
// 2.2.3, which is the list of its layers, becomes an object.
json PresentForm(const json& value) {
  json form = value;
  if (!form.is_object() || !form.contains("class_name")) return form;
  for (const auto& [alias, name] : kAliases) {
    if (form["class_name"] == std::string(alias)) form["class_name"] = name;
  }
  const bool is_old_model =
      form["class_name"] == "Sequential" && form.contains("config") && form["config"].is_array();
  if (is_old_model) form["config"] = json{{"layers", form["config"]}};
  return form;
}

// Returns the layer's name for messages: "layer 'lam'", or "the layer" if the config has no name.
std::string LayerText(const json& form) {
  const auto config = form.find("config");
  if (config == form.end() || !config->is_object()) return "the layer";
  const auto name = config->find("name");
  if (name == config->end() || !name->is_string()) return "the layer";
  return absl::StrCat("layer '", Excerpt(name->get<std::string>()), "'");
}

// Reports a layer that is Python code. Returns whether the layer is one.
bool ReportCode(const JsonPlace& place, const json& form) {
  const std::string code = PythonCodeOf(form);
  if (code.empty()) return false;
  place.errors.Add(place.path, absl::StrCat(LayerText(form), " ", code, ", ", kNoCodeInJson));
  return true;
}

// Reports a class that is not in the table, if Keras wrote the file: its name is then not misspelt,
// and may be a class of the user's own. Returns whether the class was reported.
bool ReportUnknown(const JsonPlace& place, const json& form, const LayerContext& context,
                   const std::vector<ClassChoice<const LayerClass*>>& choices) {
  if (!context.version_is_known && !context.names_modules) return false;
  if (!form.is_object() || !form.contains("class_name") || !form["class_name"].is_string()) {
    return false;
  }
  const std::string class_name = form["class_name"];
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& one : choices) names.push_back(one.name);
  if (std::find(names.begin(), names.end(), class_name) != names.end()) return false;
  place.errors.Add(place.path,
                   absl::StrCat(LayerText(form), ": ", UnknownName("layer", class_name, names),
                                "; if it is a class of your own, it is one ", kNoCodeInJson));
  return true;
}

bool IsClassOfOperation(const LayerClass& one) { return !absl::string_view(one.module).empty(); }

// Returns whether the form is an operation of Keras 3. Some operations have the class name of a
// layer; then the module tells them apart or, in an .h5 file of Keras 3, which has no modules, the
// key `trainable`, which only layers have.
bool IsOperation(const json& form, const LayerContext& context) {
  if (!form.is_object()) return false;
  if (form.contains("module") && form["module"].is_string()) {
    const std::string module = form["module"].get<std::string>();
    return absl::StartsWith(module, "keras.src.ops") || absl::StartsWith(module, "keras.ops");
  }
  if (!context.version_is_known || context.keras.IsKeras2()) return false;
  const auto config = form.find("config");
  const auto name = form.find("class_name");
  if (config == form.end() || config->contains("trainable") || name == form.end()) return false;
  return std::any_of(context.classes->begin(), context.classes->end(), [&](const LayerClass& one) {
    return IsClassOfOperation(one) && *name == one.name;
  });
}

// Returns the classes that a form may name.
std::vector<ClassChoice<const LayerClass*>> Choices(const std::vector<LayerClass>& classes,
                                                    bool operations) {
  std::vector<ClassChoice<const LayerClass*>> choices;
  for (const LayerClass& one : classes) {
    if (IsClassOfOperation(one) == operations) choices.push_back({one.name, &one});
  }
  return choices;
}

// Reads whether the layer is trained. Only false is recorded, because the record of a trained layer
// has no such key.
void ReadTrainable(ObjectReader& config, bool* trainable) {
  const json* const value = config.Find("trainable");
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    return config.AddError("trainable",
                           absl::StrCat("is ", JsonExcerpt(*value), "; it must be true or false"));
  }
  *trainable = value->get<bool>();
  if (!*trainable) config.RecordAs("trainable", false);
}

}  // namespace

bool LayerClass::Takes(absl::string_view argument) const {
  if (argument == "mask" || absl::StartsWith(argument, "mask.")) return true;
  for (const absl::string_view one : absl::StrSplit(arguments, ' ')) {
    if (one == argument) return true;
  }
  return false;
}

std::vector<LayerValue> LayerSpec::Build(const BuiltCall& call, LayerTarget& target) const {
  const ProductPrecisionScope scope(target.graph, precision);
  return layer->Build(call, target);
}

ReadLayerResult ReadLayer(const JsonPlace& place, const LayerContext& context) {
  ReadLayerResult result;
  LayerSpec spec;
  ordered_json record;
  LayerContext inner = context;
  if (++inner.depth > kDepthMax) {
    place.errors.Add(place.path, absl::StrCat("lies in more than ", kDepthMax, " layers"));
    return result;
  }
  const json form = PresentForm(*place.value);
  const auto fields = [&](ObjectReader& config, const LayerClass* found) {
    LayerReader reader(config, inner);
    reader.Name(&spec.name);
    ReadTrainable(config, &spec.trainable);
    std::unique_ptr<Layer> layer = found->make(found->name);
    layer->Read(reader);
    spec.precision = reader.precision();
    reader.Regularizer("activity_regularizer", &spec.activity);
    if (layer->activity() != nullptr) spec.activity = *layer->activity();
    if (!spec.activity.is_none()) spec.activity_per_example = IsPerExample(reader.Keras());
    if (layer->input() == nullptr) {
      result.input_shape =
          reader.ExampleShape(found->kind == LayerKind::kLookup ? LayerReader::InputDim::kRows
                                                                : LayerReader::InputDim::kShape);
    }
    spec.layer = std::move(layer);
    // Errors about the input's shape are reported later, under this path.
    result.config_path = config.path();
  };
  const JsonPlace both = {place.path, place.errors, &form, &record};
  const auto choices = Choices(*context.classes, IsOperation(form, context));
  if (ReportCode(place, form) || ReportUnknown(place, form, context, choices)) return result;
  if (!ReadClass(both, "layer", choices, "", fields, spec.type)) return result;
  record["config"].erase("name");
  spec.config = record["config"].dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  result.layer = std::move(spec);
  return result;
}

ordered_json LayerToJson(const LayerSpec& layer) {
  ordered_json config = {{"name", layer.name}};
  const ordered_json rest = ordered_json::parse(layer.config, nullptr, /*allow_exceptions=*/false);
  for (const auto& item : rest.items()) config[item.key()] = item.value();
  ordered_json form = {{"class_name", layer.type->name}};
  if (*layer.type->module != '\0') form["module"] = layer.type->module;
  form["config"] = std::move(config);
  return form;
}

}  // namespace cohort
