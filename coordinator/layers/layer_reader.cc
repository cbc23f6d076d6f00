#include "coordinator/layers/layer_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/dtype_policy.h"
#include "coordinator/layers/layer.h"
#include "nlohmann/json.hpp"

namespace cohort {

using nlohmann::json;

const KerasVersion& LayerReader::Keras() {
  context_.notes->depends_on_version = true;
  return context_.keras;
}

void LayerReader::Name(std::string* out) {
  std::string name = *out;
  config.String("name", &name);
  // Layer names become parts of variables' names and of checkpoint keys, so some characters are
  // refused.
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

namespace {

// Returns the name of a type or policy, which Keras writes as "float32" or in the config of a
// class. Returns nothing for any other value.
std::optional<std::string> TypeName(const json& value) {
  const json* name = &value;
  if (value.is_object() && value.contains("config") && value["config"].is_object() &&
      value["config"].contains("name")) {
    name = &value["config"]["name"];
  }
  if (!name->is_string()) return std::nullopt;
  return name->get<std::string>();
}

}  // namespace

DType LayerReader::ElementType() {
  const json* const value = config.Find("dtype");
  if (value == nullptr) return DType::kFloat32;
  const std::optional<std::string> name = TypeName(*value);
  const absl::StatusOr<DType> dtype = DTypeFromName(name.value_or(""));
  if (dtype.ok()) return *dtype;
  config.AddError("dtype", absl::StrCat("is ", JsonExcerpt(*value),
                                        "; it must be the name of a type such as 'float32'"));
  return DType::kFloat32;
}

void LayerReader::FloatPolicy() {
  const json* const value = config.Find("dtype");
  std::string name = value == nullptr ? context_.dtype_policy : TypeName(*value).value_or("");
  const bool is_of_keras = context_.version_is_known || context_.names_modules;
  if (is_of_keras && name == kFloat32Policy) name = context_.dtype_policy;
  if (name == kFloat32Policy) return;
  if (!IsMixedPolicy(name)) {
    return config.AddError(
        "dtype", absl::StrCat("is ", JsonExcerpt(*value), "; layers compute by the policies ",
                              kDTypePolicies));
  }
  precision_ = ProductPrecision::kBfloat16;
  config.RecordAs("dtype", name);
  const std::string note =
      absl::StrCat("policy ", name,
                   ": the factors of products are rounded to bfloat16, and all else is float32");
  std::vector<std::string>& lines = context_.notes->lines;
  if (std::find(lines.begin(), lines.end(), note) == lines.end()) lines.push_back(note);
}

void LayerReader::ReadActivation(Activation* out) { ReadActivation("activation", out); }

void LayerReader::ReadActivation(const std::string& key, Activation* out) {
  const auto place = config.Place(key);
  if (place && place->value != nullptr) {
    const std::optional<std::string> name = FunctionName(*place->value);
    const std::vector<std::string>& names = ActivationNames();
    if (!name) {
      config.errors().Add(place->path, absl::StrCat("is ", JsonExcerpt(*place->value),
                                                    "; it must be a name such as 'relu'"));
    } else if (std::find(names.begin(), names.end(), *name) == names.end()) {
      config.errors().Add(place->path, UnknownName("activation", *name, names));
    } else {
      out->name = *name;
      // hard_sigmoid is the only function that differs by version.
      if (*name == "hard_sigmoid") out->keras = Keras();
    }
  }
  if (place && place->record != nullptr) *place->record = out->name;
}

std::optional<std::vector<int64_t>> LayerReader::ExampleShape(InputDim input_dim) {
  std::optional<std::vector<int64_t>> shape;
  for (const char* key : {"batch_shape", "batch_input_shape"}) {
    if (const json* value = config.Find(key)) shape = WithoutBatch(key, *value);
  }
  for (const char* key : {"shape", "input_shape"}) {
    if (const json* value = config.Find(key)) {
      shape = ReadInts(*value, JoinKeys(config.path(), key), {.min = 1, .max = kDimMax},
                       config.errors());
    }
  }
  // For a table, `input_dim` counts rows.
  if (input_dim == InputDim::kShape) {
    std::optional<int64_t> dim;
    config.FindInt("input_dim", {.min = 1, .max = kDimMax}, &dim);
    if (dim) shape = {*dim};
  }
  if (shape && shape->size() > kRankMax) {
    config.errors().Add(config.path(),
                        absl::StrCat("the input has more than ", kRankMax, " dimensions"));
    return std::nullopt;
  }
  return shape;
}

void LayerReader::Weight(const std::string& name, WeightRules* out) {
  Initializer((name + "_initializer").c_str(), &out->initializer);
  Regularizer(name + "_regularizer", &out->regularizer);
  const std::string key = name + "_constraint";
  const json* const value = config.Find(key);
  if (value == nullptr) return;
  nlohmann::ordered_json record;
  ReadConstraint({JoinKeys(config.path(), key), config.errors(), value, &record}, out->constraint);
  if (!out->constraint.is_none()) config.RecordAs(key, record);
}

void LayerReader::Regularizer(const std::string& key, RegularizerSpec* out) {
  const json* const value = config.Find(key);
  if (value == nullptr) return;
  nlohmann::ordered_json record;
  ReadRegularizer({JoinKeys(config.path(), key), config.errors(), value, &record}, *out);
  if (!out->is_none()) config.RecordAs(key, record);
}

void LayerReader::Initializer(const char* key, KerasInitializerSpec* out) {
  if (const auto place = config.Place(key)) ReadInitializer(*place, *out);
}

void LayerReader::Extents(const char* key, std::vector<int64_t>* out) {
  std::vector<int64_t> extents = *out;
  config.Ints(key, {.min = 1, .max = kDimMax}, out->size(), &extents);
  if (extents.size() == out->size()) {
    *out = std::move(extents);
    return;
  }
  config.AddError(key, absl::StrCat("is ", JsonExcerpt(*config.Find(key)),
                                    "; it must be a number, or one for each of ", out->size(),
                                    out->size() == 1 ? " axis" : " axes"));
}

void LayerReader::Padding(bool* same) {
  std::string padding = *same ? "same" : "valid";
  config.Choice("padding", {"valid", "same"}, &padding);
  *same = padding == "same";
}

void LayerReader::DataFormat(bool* channels_first) {
  const json* const value = config.Find("data_format");
  if (value == nullptr) return;
  const bool is_first = *value == "channels_first";
  if (!is_first && *value != "channels_last") {
    return config.AddError("data_format", absl::StrCat("is ", JsonExcerpt(*value),
                                                       "; it must be 'channels_last' or "
                                                       "'channels_first'"));
  }
  *channels_first = is_first;
  // Only what is not the default is recorded.
  if (is_first) config.RecordAs("data_format", "channels_first");
}

void LayerReader::OnlyChannelsLast() { config.OnlyNeutral("data_format", "channels_last"); }

void LayerReader::Axis(int64_t* axis) {
  constexpr IntRange kAxes = {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax};
  const json* const value = config.Find("axis");
  if (value != nullptr && value->is_array()) {
    const auto axes = ReadInts(*value, JoinKeys(config.path(), "axis"), kAxes, config.errors());
    if (axes && axes->size() == 1) *axis = axes->front();
    if (axes && axes->size() != 1) {
      config.AddError("axis", absl::StrCat("is ", JsonExcerpt(*value), "; it must be one number"));
    }
    config.RecordAs("axis", *axis);
    return;
  }
  config.Int("axis", kAxes, axis);
}

void LayerReader::OnlyNull(std::initializer_list<const char*> keys) {
  for (const char* key : keys) config.OnlyNeutral(key, nullptr);
}

std::optional<std::vector<int64_t>> LayerReader::WithoutBatch(const char* key, const json& value) {
  // Keras writes null for the batch, or the number of examples that a stateful layer needs.
  const bool has_batch =
      value.is_array() && !value.empty() && (value[0].is_null() || value[0].is_number_integer());
  if (!has_batch) {
    config.AddError(key, absl::StrCat("is ", JsonExcerpt(value),
                                      "; it must be a list that begins with null, the batch"));
    return std::nullopt;
  }
  // Other dimensions may be null too: those of sequences, and of images of any size.
  json known = json::array();
  for (size_t i = 1; i < value.size(); ++i) {
    if (!value[i].is_null()) known.push_back(value[i]);
  }
  const auto read =
      ReadInts(known, JoinKeys(config.path(), key), {.min = 1, .max = kDimMax}, config.errors());
  if (!read) return std::nullopt;
  std::vector<int64_t> dims;
  size_t next = 0;
  for (size_t i = 1; i < value.size(); ++i) {
    dims.push_back(value[i].is_null() ? -1 : (*read)[next++]);
  }
  return dims;
}

}  // namespace cohort
