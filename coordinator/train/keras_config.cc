#include "coordinator/train/keras_config.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/program.h"
#include "coordinator/network/model_config.h"
#include "coordinator/train/keras_order.h"

namespace cohort {

namespace {

using nlohmann::ordered_json;

constexpr char kClass[] = "class_name";
constexpr char kConfig[] = "config";
constexpr char kModule[] = "module";
constexpr char kBuildShape[] = "build_input_shape";
constexpr char kCompileConfig[] = "compile_config";

// Returns the shape of the model's only input with a batch of any size, as Keras writes it.
absl::StatusOr<ordered_json> InputShape(const proto::Program& predict) {
  ASSIGN_OR_RETURN(const onnx::ModelProto model, LoadProgram(predict));
  for (int i = 0; i < predict.inputs_size(); ++i) {
    if (predict.inputs(i).source_case() != proto::InputBinding::kBatchComponent) continue;
    ordered_json shape = ordered_json::array();
    for (const auto& dim : model.graph().input(i).type().tensor_type().shape().dim()) {
      shape.push_back(dim.has_dim_value() ? ordered_json(dim.dim_value()) : ordered_json());
    }
    return shape;
  }
  return absl::InvalidArgumentError("the model reads no column of the batch");
}

// Returns the module of a model's class, which Keras from 2.13 on needs.
std::string ModuleOf(const std::string& model_class, bool is_keras2) {
  if (model_class == "Sequential") return "keras";
  return is_keras2 ? "keras.src.engine.functional" : "keras.src.models.functional";
}

// Writes a model in the form of Keras 3, for a model that a person wrote. Lives for one model.
// Thread-compatible.
class Keras3Writer {
 public:
  absl::StatusOr<ordered_json> Write(const ModelSpec& model) {
    ordered_json form = ModelToJson(model);
    OrderAsKeras(form);
    WriteLayer(form);
    RETURN_IF_ERROR(status_);
    return form;
  }

 private:
  // Adds module and registered name, by which Keras 3 finds the class, to a layer's form and to the
  // layers in it.
  void WriteLayer(ordered_json& form) {
    const std::string type = form.at(kClass);
    const std::string name = form.at(kConfig).at("name");
    const bool is_model = type == "Sequential" || type == "Functional";
    const bool is_operation = form.contains(kModule);
    // Adding a key to an ordered object moves its values, so the reference to the config is taken
    // after that.
    form["registered_name"] = nullptr;
    if (form.contains("inbound_nodes")) {
      form["name"] = name;
      CompleteTensors(form["inbound_nodes"]);
    }
    if (is_operation) return WriteOperation(type, form);
    form[kModule] = is_model ? ModuleOf(type, /*is_keras2=*/false) : "keras.layers";
    ordered_json& config = form.at(kConfig);
    Adapt(type, name, config);
    // Keras exports GroupedQueryAttention under another name, GroupQueryAttention. The group in the
    // file of weights is named after the class.
    if (type == "GroupedQueryAttention") form[kClass] = "GroupQueryAttention";
    for (const char* const key : {"layer", "backward_layer", "cell"}) {
      if (config.contains(key)) WriteLayer(config[key]);
    }
    for (const char* const key : {"layers", "cells"}) {
      if (!config.contains(key)) continue;
      for (ordered_json& layer : config[key]) WriteLayer(layer);
    }
  }

  // Adds the module of an operation. All operations are written with the same module.
  static void WriteOperation(const std::string& type, ordered_json& form) {
    form["registered_name"] = type;
    if (type == "Relu" || type == "Sigmoid") form[kModule] = "keras.src.ops.nn";
  }

  // Changes keys that Keras 3 writes differently, and refuses what Keras 3 does not have.
  void Adapt(const std::string& type, const std::string& name, ordered_json& config) {
    if (type == "EmbeddingBag") {
      Refuse(absl::StrCat("layer '", name, "' is an EmbeddingBag, which Keras does not have"));
    } else if (type == "UpSampling1D" && config.contains("size") && config["size"].is_array()) {
      config["size"] = ordered_json(config["size"].at(0));
    } else if (config.contains("causal") && absl::StrContains(type, "Attention")) {
      // In Keras 3, `causal` is an argument of the call, use_causal_mask.
      if (config["causal"] == true) {
        Refuse(absl::StrCat("layer '", name,
                            "' has `causal` true, a key of Keras 2 alone; give "
                            "use_causal_mask in the call"));
      }
      config.erase("causal");
    }
  }

  void Refuse(const std::string& cause) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(
        cause, "; leave the key out, export.onnx and export.safetensors can have the model"));
  }

  // Adds a shape and a type to each tensor's name. Keras 3 requires them, and uses the name alone.
  static void CompleteTensors(ordered_json& value) {
    if (!value.is_structured()) return;
    if (value.is_object() && value.contains(kClass) && value[kClass] == "__keras_tensor__") {
      value[kConfig]["shape"] = {nullptr};
      value[kConfig]["dtype"] = "float32";
      return;
    }
    for (ordered_json& item : value) CompleteTensors(item);
  }

  absl::Status status_;  // the first error
};

// Returns Keras's own text of the model in the form of an archive: with a module, and without the
// keys that metadata.json has.
ordered_json AsItCame(const ModelSpec& model) {
  ordered_json form = ordered_json::parse(model.file_form.config, nullptr, false);
  for (const char* const key : {"keras_version", "backend", kCompileConfig}) form.erase(key);
  if (form[kClass] == "Model") form[kClass] = "Functional";
  if (form[kConfig].is_array()) {
    ordered_json layers = std::move(form[kConfig]);
    form[kConfig] = {{"name", model.name}, {"layers", std::move(layers)}};
  }
  if (!form.contains(kModule) || form[kModule].is_null()) {
    form[kModule] = ModuleOf(form[kClass], model.file_form.keras == 2);
    form["registered_name"] = nullptr;
  }
  return form;
}

// Returns the version of Keras for which the configuration is written.
std::string VersionOf(const ModelSpec& model) {
  const auto form = ordered_json::parse(model.file_form.config, nullptr, false);
  if (form.is_object() && form.contains("keras_version") && form["keras_version"].is_string()) {
    return form["keras_version"];
  }
  return absl::StrCat(model.keras.major, ".", model.keras.minor, ".0");
}

std::string Dumped(const ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<KerasTexts> KerasTextsOf(const ArchivedModel& archived) {
  const ModelSpec& model = archived.model;
  ordered_json form;
  if (model.file_form.config.empty()) {
    ASSIGN_OR_RETURN(form, Keras3Writer().Write(model));
  } else {
    form = AsItCame(model);
  }
  // A Sequential model that does not declare its input gets build_input_shape. Without it Keras
  // would make the layers without variables, and could not load any.
  if (model.sequential && !model.has_inputs() && !form[kConfig].contains(kBuildShape)) {
    ASSIGN_OR_RETURN(form[kConfig][kBuildShape], InputShape(archived.predict));
  }
  if (!archived.compiled.empty()) {
    form[kCompileConfig] = ordered_json::parse(archived.compiled, nullptr, false);
  }
  const std::string date =
      absl::FormatTime("%Y-%m-%d@%H:%M:%S", archived.saved, absl::UTCTimeZone());
  const ordered_json metadata = {{"keras_version", VersionOf(model)}, {"date_saved", date}};
  return KerasTexts{Dumped(form), Dumped(metadata)};
}

}  // namespace cohort
