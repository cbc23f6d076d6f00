#include "coordinator/json/json_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/nearest_names.h"
#include "common/cluster/json_text.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Upper bound on the errors in one message.
constexpr size_t kErrorsMax = 30;

// Returns the integer, or nothing if the value is not a whole number. R and Python front ends
// sometimes write 128 as 128.0, so a float with a whole value counts too.
std::optional<int64_t> AsInt(const json& value) {
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  // Above 2^53 not every integer is a double, so the value may not be what was written.
  if (std::floor(number) != number || std::abs(number) > kExactMax) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string Describe(IntRange range) {
  if (range.max == INT64_MAX && range.min == INT64_MIN) return "an integer";
  if (range.max == INT64_MAX) return absl::StrCat("an integer of at least ", range.min);
  return absl::StrCat("an integer from ", range.min, " to ", range.max);
}

std::string Describe(NumberRange range) {
  if (range.max >= 1e300 && range.min <= -1e300) return "a number";
  if (range.max >= 1e300) {
    return absl::StrCat("a number ", range.min_excluded ? "above " : "of at least ", range.min);
  }
  return absl::StrCat("a number in ", range.min_excluded ? "(" : "[", range.min, ", ", range.max,
                      range.max_excluded ? ")" : "]");
}

// Names that older releases of Keras wrote, with their present names.
constexpr std::pair<absl::string_view, absl::string_view> kRenamed[] = {
    {"lr", "learning_rate"},
    {"Model", "Functional"},
    {"nb_epoch", "epochs"},
    {"samples_per_epoch", "steps_per_epoch"},
    {"output_dim", "units"},
    {"p", "rate"},
    {"init", "kernel_initializer"},
    {"init", "embeddings_initializer"},
    {"W_regularizer", "kernel_regularizer"},
    {"b_regularizer", "bias_regularizer"},
    {"W_constraint", "kernel_constraint"},
    {"b_constraint", "bias_constraint"},
    {"bias", "use_bias"},
    {"nb_filter", "filters"},
    {"subsample", "strides"},
    {"border_mode", "padding"},
    {"dim_ordering", "data_format"},
    {"beta_init", "beta_initializer"},
    {"gamma_init", "gamma_initializer"},
    {"Convolution2D", "Conv2D"},
    {"MaxPool2D", "MaxPooling2D"},
    {"AvgPool2D", "AveragePooling2D"},
    {"GlobalAvgPool2D", "GlobalAveragePooling2D"},
    {"BatchNormalizationV1", "BatchNormalization"},
    {"BatchNormalizationV2", "BatchNormalization"},
};

// Returns the end of a message about an unknown name: the present name, or the nearest known name.
std::string Nearest(absl::string_view name, absl::Span<const std::string> known) {
  for (const auto& [old, now] : kRenamed) {
    // The present name helps only if it is a name of this object.
    if (old != name || std::find(known.begin(), known.end(), now) == known.end()) continue;
    return absl::StrCat("; it is called '", now, "' now (known: ", absl::StrJoin(known, ", "), ")");
  }
  const std::vector<std::string> nearest = NearestNames(name, known, 1);
  if (nearest.empty()) return "; none is known here";
  return absl::StrCat("; the nearest is '", nearest.front(),
                      "' (known: ", absl::StrJoin(known, ", "), ")");
}

bool InRange(double value, NumberRange range) {
  if (range.min_excluded ? value <= range.min : value < range.min) return false;
  return range.max_excluded ? value < range.max : value <= range.max;
}

// Reports a class that is not Keras's, although its name may be the same as that of a Keras class.
void OnlyKerasNames(ObjectReader& reader, const std::string& class_name) {
  std::string module;
  reader.String("module", &module);
  if (!IsKerasModule(module)) {
    reader.AddError("module", absl::StrCat("is '", Excerpt(module),
                                           "', and only Keras's own classes are "
                                           "known here, whose module begins with 'keras'"));
  }
  std::string registered;
  reader.String("registered_name", &registered);
  if (IsOfOtherPackage(registered)) {
    reader.AddError("registered_name",
                    absl::StrCat("is '", Excerpt(registered), "', a '", Excerpt(class_name),
                                 "' of your own, which is not known here"));
  }
}

}  // namespace

bool IsKerasModule(absl::string_view module) {
  const absl::string_view package = module.substr(0, module.find('.'));
  for (const char* const own :
       {"", "keras", "keras_core", "tf_keras", "builtins", "tensorflow", "tensorflow_core"}) {
    if (package == own) return true;
  }
  return false;
}

bool IsOfOtherPackage(absl::string_view registered) {
  // Keras writes "package>Class" for a class that is registered under a package.
  const size_t end = registered.find('>');
  return end != absl::string_view::npos && registered.substr(0, end) != "Keras";
}

void JsonErrors::Add(const std::string& path, const std::string& message) {
  messages_.push_back(path.empty() ? message : absl::StrCat(path, ": ", message));
}

absl::Status JsonErrors::ToStatus(absl::string_view file_name) const {
  if (messages_.empty()) return absl::OkStatus();
  std::string text;
  // A long list of errors helps nobody; the first errors often cause the rest.
  for (size_t i = 0; i < std::min(messages_.size(), kErrorsMax); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\n", file_name, ": ", messages_[i]);
  }
  if (messages_.size() > kErrorsMax) {
    absl::StrAppend(&text, "\n", file_name, ": and ", messages_.size() - kErrorsMax,
                    " more errors");
  }
  return absl::InvalidArgumentError(text);
}

std::string JoinKeys(const std::string& path, absl::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
}

ObjectReader::ObjectReader(const JsonPlace& place)
    : reads_(place.value != nullptr),
      value_(reads_ && place.value->is_object() ? place.value : nullptr),
      record_(place.record),
      path_(place.path),
      errors_(place.errors) {
  if (record_ != nullptr) *record_ = ordered_json::object();
  if (reads_ && value_ == nullptr) {
    errors_.Add(path_,
                absl::StrCat("is ", JsonExcerpt(*place.value), "; it must be an object {...}"));
  }
}

template <typename T>
void ObjectReader::Record(const std::string& key, const T& value) {
  if (record_ != nullptr) (*record_)[key] = value;
}

const json* ObjectReader::Find(const std::string& key) {
  // The key counts as known even if it is absent.
  known_.push_back(key);
  if (value_ == nullptr) return nullptr;
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const json* ObjectReader::Require(const std::string& key) {
  const json* found = Find(key);
  // An ObjectReader of a value that is not an object has reported that already.
  if (found == nullptr && value_ != nullptr) AddError(key, "is missing; it must be given");
  return found;
}

bool ObjectReader::Given(const std::string& key, bool is_recorded) {
  return recording() ? is_recorded : Find(key) != nullptr;
}

bool ObjectReader::HoldsObject(const std::string& key) {
  const json* const value = Find(key);
  return value != nullptr && value->is_object();
}

bool ObjectReader::HoldsList(const std::string& key) {
  const json* const value = Find(key);
  return value != nullptr && value->is_array();
}

bool ObjectReader::HoldsNull(const std::string& key) {
  return Find(key) == nullptr && value_ != nullptr && value_->contains(key);
}

std::optional<JsonPlace> ObjectReader::Place(const std::string& key) {
  JsonPlace place{JoinKeys(path_, key), errors_, Find(key)};
  if (record_ != nullptr) place.record = &(*record_)[key];
  if (place.value == nullptr && place.record == nullptr) return std::nullopt;
  return place;
}

void ObjectReader::Int(const std::string& key, IntRange range, int64_t* out) {
  std::optional<int64_t> number;
  FindInt(key, range, &number);
  if (number) *out = *number;
  Record(key, *out);
}

void ObjectReader::OptionalInt(const std::string& key, IntRange range,
                               std::optional<int64_t>* out) {
  FindInt(key, range, out);
  if (*out) Record(key, **out);
}

void ObjectReader::FindInt(const std::string& key, IntRange range, std::optional<int64_t>* out) {
  const json* value = Find(key);
  if (value == nullptr) return;
  const std::optional<int64_t> number = AsInt(*value);
  if (!number || *number < range.min || *number > range.max) {
    return AddError(key,
                    absl::StrCat("is ", JsonExcerpt(*value), "; it must be ", Describe(range)));
  }
  *out = number;
}

void ObjectReader::Seed(const std::string& key, uint64_t* out) {
  std::optional<uint64_t> seed = *out;
  OptionalSeed(key, &seed);
  *out = *seed;
}

void ObjectReader::OptionalSeed(const std::string& key, std::optional<uint64_t>* out) {
  std::optional<int64_t> seed;
  FindInt(key, {.min = 0}, &seed);
  if (seed) *out = static_cast<uint64_t>(*seed);
  if (*out) Record(key, **out);
}

void ObjectReader::NumberOrOld(const std::string& key, const std::string& old_key,
                               NumberRange range, double* out) {
  const json* const old = Find(old_key);
  if (old != nullptr && Find(key) == nullptr) {
    if (old->is_number() && InRange(old->get<double>(), range)) {
      *out = old->get<double>();
    } else {
      AddError(old_key, absl::StrCat("is ", JsonExcerpt(*old), "; it must be ", Describe(range)));
    }
  }
  Number(key, range, out);
}

void ObjectReader::Number(const std::string& key, NumberRange range, double* out) {
  if (const json* value = Find(key)) {
    if (value->is_number() && InRange(value->get<double>(), range)) {
      *out = value->get<double>();
    } else {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be ", Describe(range)));
    }
  }
  Record(key, *out);
}

void ObjectReader::Bool(const std::string& key, bool* out) {
  if (const json* value = Find(key)) {
    if (value->is_boolean()) {
      *out = value->get<bool>();
    } else {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be true or false"));
    }
  }
  Record(key, *out);
}

void ObjectReader::String(const std::string& key, std::string* out) {
  if (const json* value = Find(key)) {
    if (value->is_string()) {
      *out = value->get<std::string>();
    } else {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be a string"));
    }
  }
  Record(key, *out);
}

void ObjectReader::Function(const std::string& key, std::string* out) {
  if (const json* value = Find(key)) {
    if (const std::optional<std::string> name = FunctionName(*value)) {
      *out = *name;
    } else {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be a function's name"));
    }
  }
  Record(key, *out);
}

void ObjectReader::Choice(const std::string& key, absl::Span<const std::string> choices,
                          std::string* out) {
  if (const json* value = Find(key)) {
    const std::string text = value->is_string() ? value->get<std::string>() : "";
    const auto choice = std::find_if(choices.begin(), choices.end(), [&](const std::string& one) {
      return absl::EqualsIgnoreCase(one, text);
    });
    if (choice != choices.end()) {
      *out = *choice;
    } else {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be one of '",
                                 absl::StrJoin(choices, "', '"), "'"));
    }
  }
  if (!out->empty()) Record(key, *out);
}

void ObjectReader::Ints(const std::string& key, IntRange range, size_t repeated,
                        std::vector<int64_t>* out) {
  if (const json* value = Find(key)) {
    const bool alone = repeated > 0 && value->is_number();
    const auto all = ReadInts(alone ? json(std::vector<json>(repeated, *value)) : *value,
                              JoinKeys(path_, key), range, errors_);
    if (all) *out = *all;
  }
  Record(key, *out);
}

void ObjectReader::NullableInts(const std::string& key, IntRange range, std::vector<int64_t>* out) {
  if (const json* value = Find(key)) {
    json known = json::array();
    for (const json& one : value->is_array() ? *value : json::array({*value})) {
      if (!one.is_null()) known.push_back(one);
    }
    const auto read = ReadInts(known, JoinKeys(path_, key), range, errors_);
    if (read) {
      out->clear();
      size_t next = 0;
      for (const json& one : *value) out->push_back(one.is_null() ? -1 : (*read)[next++]);
    }
  }
  if (record_ == nullptr) return;
  ordered_json record = ordered_json::array();
  for (const int64_t one : *out) {
    record.push_back(one == -1 ? ordered_json() : ordered_json(one));
  }
  Record(key, record);
}

void ObjectReader::Numbers(const std::string& key, std::vector<double>* out) {
  if (const json* const list = Find(key)) {
    if (!list->is_array()) {
      AddError(key, absl::StrCat("is ", JsonExcerpt(*list), "; it must be a list of numbers"));
    } else {
      for (const json& item : *list) {
        if (item.is_number() && item.get<double>() >= 0) {
          out->push_back(item.get<double>());
        } else {
          AddError(key, absl::StrCat("has ", JsonExcerpt(item), "; each must be 0 or more"));
        }
      }
    }
  }
  Record(key, *out);
}

void ObjectReader::Strings(const std::string& key, size_t count_min, const char* description,
                           std::vector<std::string>* out) {
  if (const json* const list = Find(key)) {
    // The whole list is refused if one of its items is not a string.
    const bool are_strings =
        list->is_array() && list->size() >= count_min &&
        std::all_of(list->begin(), list->end(), [](const json& one) { return one.is_string(); });
    if (are_strings) {
      *out = list->get<std::vector<std::string>>();
    } else {
      AddError(key,
               absl::StrCat("is ", JsonExcerpt(*list), "; it must be a list of ", description));
    }
  }
  Record(key, *out);
}

void ObjectReader::RecordAs(const std::string& key, const ordered_json& value) {
  Record(key, value);
}

void ObjectReader::Ignore(const std::string& key) { Find(key); }

void ObjectReader::OnlyNeutral(const std::string& key, const NeutralValue& accepted) {
  const json neutral = std::visit([](const auto& one) { return json(one); }, accepted);
  const json* value = Find(key);
  if (value == nullptr || *value == neutral) return;
  AddError(key,
           absl::StrCat("is ", JsonExcerpt(*value), ", which is not supported; leave it out",
                        neutral.is_null() ? "" : absl::StrCat(" or give ", JsonExcerpt(neutral))));
}

void ObjectReader::AddError(const std::string& key, const std::string& message) {
  errors_.Add(JoinKeys(path_, key), message);
}

void ObjectReader::Finish() {
  if (value_ == nullptr) return;
  // Finish() searches the known keys, so they are sorted.
  std::sort(known_.begin(), known_.end());
  known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
  for (const auto& item : value_->items()) {
    if (std::binary_search(known_.begin(), known_.end(), item.key())) continue;
    AddError(Excerpt(item.key()), absl::StrCat("unknown key", Nearest(item.key(), known_)));
  }
}

std::vector<std::string> ObjectReader::Keys() const {
  std::vector<std::string> keys;
  if (value_ == nullptr) return keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

std::optional<std::string> FunctionName(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() || !value.contains("class_name") || !value.contains("config")) {
    return std::nullopt;
  }
  if (value["class_name"] != "function" || !value["config"].is_string()) return std::nullopt;
  return value["config"].get<std::string>();
}

ObjectReader ClassForm::Config(const std::string& name) const {
  static const auto* const kEmpty = new json(json::object());
  JsonPlace inner{config_path, place.errors};
  if (place.value != nullptr) inner.value = config != nullptr ? config : kEmpty;
  if (place.record != nullptr) {
    *place.record = ordered_json::object();
    (*place.record)["class_name"] = name;
    inner.record = &(*place.record)["config"];
  }
  return ObjectReader(inner);
}

ClassForm ReadClassForm(const JsonPlace& place, const std::string& recorded) {
  ClassForm form{place, "", nullptr, JoinKeys(place.path, "config")};
  if (place.value == nullptr) {
    form.class_name = recorded;
    return form;
  }
  const json& value = *place.value;
  if (value.is_string()) {
    form.class_name = value.get<std::string>();
    form.is_name_only = true;
    return form;
  }
  if (!value.is_object()) {
    place.errors.Add(place.path,
                     absl::StrCat("is ", JsonExcerpt(value),
                                  "; it must be {\"class_name\": ..., \"config\": {...}}"));
    return form;
  }
  ObjectReader reader({place.path, place.errors, place.value});
  if (const json* name = reader.Require("class_name")) {
    reader.String("class_name", &form.class_name);
    if (name->is_string() && form.class_name.empty()) {
      reader.AddError("class_name", "is empty; it must name a class");
    }
  }
  form.config = reader.Find("config");
  OnlyKerasNames(reader, form.class_name);
  // Keras 3 writes these keys beside the config; none of them changes the object.
  for (const char* key : {"build_config", "compile_config", "keras_version", "backend",
                          "shared_object_id", "__passive_serialization__"}) {
    reader.Ignore(key);
  }
  reader.Finish();
  if (const std::optional<std::string> function = FunctionName(value)) {
    form.class_name = *function;
    form.config = nullptr;
    form.is_name_only = true;
  }
  return form;
}

std::optional<std::vector<int64_t>> ReadInts(const json& value, const std::string& path,
                                             IntRange range, JsonErrors& errors) {
  std::vector<int64_t> numbers;
  bool valid = value.is_array();
  if (valid) {
    for (const json& item : value) {
      const std::optional<int64_t> number = AsInt(item);
      valid = valid && number && *number >= range.min && *number <= range.max;
      numbers.push_back(number.value_or(0));
    }
  }
  if (valid) return numbers;
  errors.Add(path, absl::StrCat("is ", JsonExcerpt(value), "; it must be a list, each item ",
                                Describe(range)));
  return std::nullopt;
}

std::string UnknownName(absl::string_view what, absl::string_view name,
                        absl::Span<const std::string> known) {
  return absl::StrCat("'", Excerpt(name), "' is not a known ", what, Nearest(name, known));
}

}  // namespace cohort
