#include "coordinator/job/layer_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

const std::vector<std::string>& ActivationNames() {
  static const auto* const kNames =
      new std::vector<std::string>{"linear", "relu", "sigmoid", "tanh", "softmax"};
  return *kNames;
}

}  // namespace

LayerReader::LayerReader(ObjectReader& layer) : config(layer) {
  // A layer that is not trained is not supported, so only true is accepted.
  config.OnlyNeutral("trainable", true);
}

void LayerReader::Name(std::string* out) {
  std::string name = *out;
  config.String("name", &name);
  // Names become parts of variables' names and of checkpoint keys.
  const bool valid = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
  if (valid) {
    *out = name;
    return;
  }
  config.AddError(
      "name", absl::StrCat("is '", Excerpt(name), "'; use letters, digits, '_', '-' and '.' only"));
}

DType LayerReader::ElementType() {
  const json* value = config.Find("dtype");
  if (value == nullptr) return DType::kFloat32;
  const json* name = value;
  // Keras 3's DTypePolicy holds the name in its config.
  if (value->is_object() && value->contains("config") && (*value)["config"].is_object() &&
      (*value)["config"].contains("name")) {
    name = &(*value)["config"]["name"];
  }
  if (name->is_string()) {
    const absl::StatusOr<DType> dtype = DTypeFromName(name->get<std::string>());
    if (dtype.ok()) return *dtype;
  }
  config.AddError("dtype", absl::StrCat("is ", JsonExcerpt(*value),
                                        "; it must be the name of a type such as 'float32'"));
  return DType::kFloat32;
}

void LayerReader::OnlyFloat32() {
  if (ElementType() != DType::kFloat32) {
    config.AddError("dtype", "is not 'float32', the only type that layers compute in");
  }
}

void LayerReader::ReadActivation(Activation* out) {
  if (config.recording()) {
    std::string name(ActivationName(*out));
    return config.String("activation", &name);
  }
  const json* value = config.Find("activation");
  if (value == nullptr) return;
  const std::string path = JoinPath(config.path(), "activation");
  const std::optional<std::string> name = FunctionName(*value);
  if (!name) {
    return config.errors().Add(
        path, absl::StrCat("is ", JsonExcerpt(*value), "; it must be a name such as 'relu'"));
  }
  const std::vector<std::string>& names = ActivationNames();
  const auto found = std::find(names.begin(), names.end(), *name);
  if (found == names.end()) {
    return config.errors().Add(path, UnknownName("activation", *name, names));
  }
  // The names have the order of the enum Activation.
  *out = static_cast<Activation>(found - names.begin());
}

void LayerReader::Input(std::vector<int64_t>* shape, DType* dtype) {
  if (const auto place = config.Place("batch_input_shape"); config.recording()) {
    // The first dimension is the batch, which Keras writes as null.
    *place->record = {nullptr};
    for (const int64_t dim : *shape) place->record->push_back(dim);
    std::string name(DTypeName(*dtype));
    return config.String("dtype", &name);
  }
  *dtype = ElementType();
  *shape = ExampleShape(InputDim::kShape).value_or(std::vector<int64_t>());
}

std::optional<std::vector<int64_t>> LayerReader::ExampleShape(InputDim input_dim) {
  std::optional<std::vector<int64_t>> shape;
  for (const char* key : {"batch_shape", "batch_input_shape"}) {
    if (const json* value = config.Find(key)) shape = WithoutBatch(key, *value);
  }
  for (const char* key : {"shape", "input_shape"}) {
    if (const json* value = config.Find(key)) {
      shape = ReadInts(*value, JoinPath(config.path(), key), {.min = 1, .max = kDimMax},
                       config.errors());
    }
  }
  // For a table, `input_dim` counts rows.
  if (input_dim == InputDim::kShape) {
    std::optional<int64_t> dim;
    config.OptionalInt("input_dim", {.min = 1, .max = kDimMax}, &dim);
    if (dim) shape = {*dim};
  }
  if (shape && shape->size() > kRankMax) {
    config.errors().Add(config.path(),
                        absl::StrCat("the input has more than ", kRankMax, " dimensions"));
    return std::nullopt;
  }
  return shape;
}

void LayerReader::OnlyNeutralRegularizer(const char* key) {
  const json* const value = config.Find(key);
  if (value == nullptr) return;
  bool adds_nothing = false;
  if (value->is_object() && value->contains("config") && (*value)["config"].is_object()) {
    const json& strengths = (*value)["config"];
    // Regularizers with strengths of 0 add nothing to the loss.
    adds_nothing =
        !strengths.empty() && std::all_of(strengths.begin(), strengths.end(),
                                          [](const json& strength) { return strength == 0; });
  }
  if (adds_nothing) return;
  config.AddError(key, absl::StrCat("is ", JsonExcerpt(*value),
                                    ", which is not supported; leave it out, or give l1 and l2 "
                                    "of 0"));
}

void LayerReader::Initializer(const char* key, KerasInitializerSpec* out) {
  if (const auto place = config.Place(key)) ReadInitializer(*place, *out);
}

void LayerReader::Pair(const char* key, Extents* out) {
  std::vector<int64_t> extents(out->begin(), out->end());
  // A single number stands for both rows and columns.
  config.Ints(key, {.min = 1, .max = kDimMax}, out->size(), &extents);
  if (extents.size() == out->size()) {
    std::copy(extents.begin(), extents.end(), out->begin());
    return;
  }
  config.AddError(key, absl::StrCat("is ", JsonExcerpt(*config.Find(key)),
                                    "; it must be a number, or one of rows and one of columns"));
}

void LayerReader::Padding(bool* same) {
  std::string padding = *same ? "same" : "valid";
  config.Choice("padding", {"valid", "same"}, &padding);
  *same = padding == "same";
}

std::optional<std::vector<int64_t>> LayerReader::WithoutBatch(const char* key, const json& value) {
  // Keras writes null for the batch, which has no fixed size.
  if (!value.is_array() || value.empty() || !value[0].is_null()) {
    config.AddError(key, absl::StrCat("is ", JsonExcerpt(value),
                                      "; it must be a list that begins with null, the batch"));
    return std::nullopt;
  }
  json rest = json::array();
  rest.insert(rest.end(), value.begin() + 1, value.end());
  return ReadInts(rest, JoinPath(config.path(), key), {.min = 1, .max = kDimMax}, config.errors());
}

absl::string_view ActivationName(Activation activation) {
  return ActivationNames()[static_cast<size_t>(activation)];
}

}  // namespace cohort
