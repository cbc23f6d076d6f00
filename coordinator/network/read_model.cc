#include "coordinator/network/read_model.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/python_code.h"
#include "coordinator/network/model_config.h"
#include "coordinator/network/nested_model.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// Reads the version of Keras that wrote the model. A model written by hand has neither a version
// nor a module.
void ReadVersion(const JsonPlace& place, LayerContext& context) {
  const json& value = *place.value;
  if (!value.is_object()) return;
  context.names_modules = value.contains("module") && !value["module"].is_null();
  if (!value.contains("keras_version") || value["keras_version"].is_null()) return;
  const json& text = value["keras_version"];
  const auto version =
      text.is_string() ? ParseKerasVersion(text.get<std::string>()) : std::optional<KerasVersion>();
  if (!version) {
    return place.errors.Add(JoinKeys(place.path, "keras_version"),
                            absl::StrCat("is ", JsonExcerpt(text),
                                         "; it must be a version from 2.0 on, such as \"2.15.0\""));
  }
  context.keras = *version;
  context.version_is_known = true;
}

// Reports a model that is Python code. Returns whether the model was reported. In a file of Keras,
// a class other than Sequential and Functional is a subclassed model; in a file that a person
// wrote, the name may be misspelt.
bool ReportCode(const JsonPlace& place, const LayerContext& context) {
  const json& form = *place.value;
  std::string code = PythonCodeOf(form);
  const bool is_named = form.is_object() && form.contains("class_name") &&
                        form["class_name"].is_string() && form.contains("config");
  if (code.empty() && is_named && (context.version_is_known || context.names_modules)) {
    const std::string name = form["class_name"];
    const bool is_known = name == "Sequential" || name == "Functional" || name == "Model";
    if (!is_known) code = absl::StrCat("is the subclassed model '", Excerpt(name), "'");
  }
  if (code.empty()) return false;
  place.errors.Add(place.path, absl::StrCat("the model ", code, ", ", kNoCodeInJson));
  return true;
}

}  // namespace

std::optional<KerasVersion> ParseKerasVersion(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  KerasVersion version;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &version.major) ||
      !absl::SimpleAtoi(parts[1], &version.minor) || version.major < 2 || version.minor < 0) {
    return std::nullopt;
  }
  return version;
}

void ReadModel(const JsonPlace& place, ModelSpec& model) {
  if (place.value == nullptr) {
    *place.record = ModelToJson(model);
    return;
  }
  FileNotes notes;
  LayerContext context{
      .classes = &NetworkClasses(), .dtype_policy = model.file_form.dtype_policy, .notes = &notes};
  ReadVersion(place, context);
  model.file_form.path = place.path;
  if (ReportCode(place, context)) return;
  const ClassForm form = ReadClassForm({place.path, place.errors, place.value}, "");
  if (!form.ok()) return;
  // Before TensorFlow 2.2 a functional model had the class name Model.
  const bool functional = form.class_name == "Functional" || form.class_name == "Model";
  if (!functional && form.class_name != "Sequential") {
    return place.errors.Add(place.path,
                            UnknownName("model", form.class_name, {"Sequential", "Functional"}));
  }
  model.keras = context.keras;
  model.file_form.keras =
      context.version_is_known ? context.keras.major : (context.names_modules ? 3 : 0);
  if (model.file_form.keras != 0 && model.file_form.version_from.empty()) {
    model.file_form.version_from = context.version_is_known ? "keras_version" : "module";
  }
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
