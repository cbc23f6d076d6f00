#include "coordinator/network/read_model.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/cluster/json_text.h"
#include "coordinator/network/model_config.h"
#include "coordinator/network/nested_model.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// Reads the version in "2.15.0" or "2.2.4-tf".
std::optional<KerasVersion> ParseVersion(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  KerasVersion version;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &version.major) ||
      !absl::SimpleAtoi(parts[1], &version.minor)) {
    return std::nullopt;
  }
  return version;
}

// Reads which Keras wrote the model. A model written by hand has neither a version nor a module.
void ReadVersion(const JsonPlace& place, LayerContext& context) {
  const json& value = *place.value;
  if (!value.is_object()) return;
  context.names_modules = value.contains("module") && !value["module"].is_null();
  if (!value.contains("keras_version") || value["keras_version"].is_null()) return;
  const json& text = value["keras_version"];
  const auto version =
      text.is_string() ? ParseVersion(text.get<std::string>()) : std::optional<KerasVersion>();
  if (!version) {
    return place.errors.Add(
        JoinKeys(place.path, "keras_version"),
        absl::StrCat("is ", JsonExcerpt(text), "; it must be a version such as \"2.15.0\""));
  }
  context.keras = *version;
  context.version_is_known = true;
}

}  // namespace

void ReadModel(const JsonPlace& place, ModelSpec& model) {
  if (place.value == nullptr) {
    *place.record = ModelToJson(model);
    return;
  }
  const ClassForm form = ReadClassForm({place.path, place.errors, place.value}, "");
  if (!form.ok()) return;
  // Before TensorFlow 2.2 a functional model had the class name Model.
  const bool functional = form.class_name == "Functional" || form.class_name == "Model";
  if (!functional && form.class_name != "Sequential") {
    return place.errors.Add(place.path,
                            UnknownName("model", form.class_name, {"Sequential", "Functional"}));
  }
  FileNotes notes;
  LayerContext context{.classes = &NetworkClasses(), .notes = &notes};
  ReadVersion(place, context);
  model.keras = context.keras;
  model.file_form.keras =
      context.version_is_known ? context.keras.major : (context.names_modules ? 3 : 0);
  if (functional) model.name = "functional";
  // Before Keras 2.2.3 the config of a Sequential model was the list of its layers.
  if (!functional && form.config != nullptr && form.config->is_array()) {
    model.file_form.config_is_list = true;
    ReadLayerList(*form.config, form.config_path, place.errors, context, model);
  } else {
    ObjectReader config = form.Config("");
    config.String("name", &model.name);
    config.Bool("trainable", &model.trainable);
    ReadModelConfig(config, functional, context, model);
    config.Finish();
  }
  model.depends_on_version = notes.depends_on_version;
  model.notes = std::move(notes.lines);
}

}  // namespace cohort
