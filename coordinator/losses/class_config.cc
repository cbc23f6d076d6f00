#include "coordinator/losses/class_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/cluster/json_text.h"
#include "coordinator/json/json_reader.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Upper bound on the numbers in one list of a config.
constexpr size_t kNumbersMax = 65536;
// Up to 2^53 every whole number is a double.
constexpr double kWholeMax = 9007199254740992.0;

using Kind = ConfigKey::Kind;

bool IsWhole(Kind kind) { return kind == Kind::kWhole || kind == Kind::kWholes; }
bool IsList(Kind kind) { return kind == Kind::kNumbers || kind == Kind::kWholes; }

std::string BoundText(double bound) {
  return std::abs(bound) >= 1e300 ? (bound < 0 ? "-inf" : "inf") : absl::StrCat(bound);
}

// Returns what the value of a key must be, as the end of a message.
std::string Describe(const ConfigKey& key) {
  std::string text;
  if (key.kind == Kind::kFlag) {
    text = "true or false";
  } else if (key.kind == Kind::kChoice) {
    text = absl::StrCat("one of '", absl::StrJoin(key.choices, "', '"), "'");
  } else {
    const bool open_below = key.range.min_excluded || key.range.min <= -1e300;
    const bool open_above = key.range.max_excluded || key.range.max >= 1e300;
    text = absl::StrCat(IsWhole(key.kind) ? "a whole number" : "a number", " in ",
                        open_below ? "(" : "[", BoundText(key.range.min), ", ",
                        BoundText(key.range.max), open_above ? ")" : "]",
                        IsList(key.kind) ? ", or a list of such numbers" : "");
  }
  const bool may_be_null = key.nullable || std::holds_alternative<std::monostate>(key.otherwise);
  return may_be_null ? absl::StrCat(text, ", or null") : text;
}

bool Fits(const ConfigKey& key, const json& value) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  if (IsWhole(key.kind) && (std::floor(number) != number || std::abs(number) > kWholeMax)) {
    return false;
  }
  const KeyRange& range = key.range;
  if (range.min_excluded ? number <= range.min : number < range.min) return false;
  return range.max_excluded ? number < range.max : number <= range.max;
}

// Returns the value of a key as the file gives it, or nothing if the key cannot have this value.
std::optional<ConfigValue> ValueOf(const ConfigKey& key, const json& value) {
  if (key.kind == Kind::kFlag) {
    if (!value.is_boolean()) return std::nullopt;
    return ConfigValue(value.get<bool>() ? 1.0 : 0.0);
  }
  if (key.kind == Kind::kChoice) {
    if (!value.is_string()) return std::nullopt;
    std::string text = value.get<std::string>();
    if (std::find(key.choices.begin(), key.choices.end(), text) == key.choices.end()) {
      return std::nullopt;
    }
    return ConfigValue(std::move(text));
  }
  if (IsList(key.kind) && value.is_array()) {
    std::vector<double> numbers;
    if (value.size() > kNumbersMax) return std::nullopt;
    for (const json& item : value) {
      if (!Fits(key, item)) return std::nullopt;
      numbers.push_back(item.get<double>());
    }
    return ConfigValue(std::move(numbers));
  }
  if (!Fits(key, value)) return std::nullopt;
  return ConfigValue(value.get<double>());
}

ordered_json ToJson(const ConfigKey& key, const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto number = [&](double one) -> ordered_json {
    if (IsWhole(key.kind)) return static_cast<int64_t>(one);
    return one;
  };
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    ordered_json all = ordered_json::array();
    for (const double one : *list) all.push_back(number(one));
    return all;
  }
  if (const auto* one = std::get_if<double>(&value)) {
    if (key.kind == Kind::kFlag) return *one != 0;
    return number(*one);
  }
  return nullptr;
}

void ReadKey(ObjectReader& reader, const ConfigKey& key, ClassConfig& config) {
  const json* const value = reader.Find(key.name);
  if (value != nullptr) {
    std::optional<ConfigValue> read = ValueOf(key, *value);
    if (!read) {
      return reader.AddError(
          key.name, absl::StrCat("is ", JsonExcerpt(*value), "; it must be ", Describe(key)));
    }
    return config.Set(key.name, *std::move(read));
  }
  if (!key.nullable) return;
  // Find() returns the same for null and for an absent key, so the keys are looked up.
  const std::vector<std::string> given = reader.Keys();
  if (std::find(given.begin(), given.end(), key.name) != given.end()) {
    config.Set(key.name, std::monostate());
  }
}

ConfigKey Key(const std::string& name, Kind kind, ConfigValue otherwise, KeyRange range = {}) {
  ConfigKey key;
  key.name = name;
  key.kind = kind;
  key.otherwise = std::move(otherwise);
  key.range = range;
  return key;
}

}  // namespace

ClassConfig ClassConfig::Default(absl::Span<const ConfigKey> keys) {
  ClassConfig config;
  for (const ConfigKey& key : keys) config.Set(key.name, key.otherwise);
  return config;
}

const ConfigValue& ClassConfig::At(absl::string_view key) const {
  const auto found = values_.find(key);
  COHORT_CHECK(found != values_.end(), "the class has this key");
  return found->second;
}

bool ClassConfig::IsNull(absl::string_view key) const {
  return std::holds_alternative<std::monostate>(At(key));
}

double ClassConfig::Number(absl::string_view key) const { return std::get<double>(At(key)); }

int64_t ClassConfig::Whole(absl::string_view key) const {
  return static_cast<int64_t>(Number(key));
}

bool ClassConfig::Flag(absl::string_view key) const { return Number(key) != 0; }

const std::string& ClassConfig::Text(absl::string_view key) const {
  return std::get<std::string>(At(key));
}

std::vector<double> ClassConfig::Numbers(absl::string_view key) const {
  const ConfigValue& value = At(key);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  if (const auto* one = std::get_if<double>(&value)) return {*one};
  return {};
}

std::vector<int64_t> ClassConfig::Wholes(absl::string_view key) const {
  std::vector<int64_t> wholes;
  for (const double number : Numbers(key)) wholes.push_back(static_cast<int64_t>(number));
  return wholes;
}

bool ClassConfig::IsList(absl::string_view key) const {
  return std::holds_alternative<std::vector<double>>(At(key));
}

void ReadConfigKeys(ObjectReader& reader, absl::Span<const ConfigKey> keys, ClassConfig& config) {
  for (const ConfigKey& key : keys) {
    if (!reader.recording()) {
      ReadKey(reader, key, config);
      continue;
    }
    const bool is_default = key.is_later && config.At(key.name) == key.otherwise;
    const bool is_written = !is_default && (!config.IsNull(key.name) || key.nullable);
    if (is_written) *reader.Place(key.name)->record = ToJson(key, config.At(key.name));
  }
}

ConfigKey FlagKey(const std::string& name, bool otherwise) {
  return Key(name, Kind::kFlag, otherwise ? 1.0 : 0.0);
}

ConfigKey NumberKey(const std::string& name, double otherwise, KeyRange range) {
  return Key(name, Kind::kNumber, otherwise, range);
}

ConfigKey WholeKey(const std::string& name, double otherwise, KeyRange range) {
  return Key(name, Kind::kWhole, otherwise, range);
}

ConfigKey ChoiceKey(const std::string& name, const std::string& otherwise,
                    std::vector<std::string> choices) {
  ConfigKey key = Key(name, Kind::kChoice, otherwise);
  key.choices = std::move(choices);
  return key;
}

ConfigKey OptionalWholeKey(const std::string& name, KeyRange range) {
  return Key(name, Kind::kWhole, std::monostate(), range);
}

ConfigKey OptionalNumberKey(const std::string& name, KeyRange range) {
  return Key(name, Kind::kNumber, std::monostate(), range);
}

ConfigKey OptionalNumbersKey(const std::string& name, KeyRange range) {
  return Key(name, Kind::kNumbers, std::monostate(), range);
}

ConfigKey OptionalChoiceKey(const std::string& name, std::vector<std::string> choices) {
  ConfigKey key = ChoiceKey(name, "", std::move(choices));
  key.otherwise = std::monostate();
  return key;
}

ConfigKey OptionalWholesKey(const std::string& name, KeyRange range) {
  return Key(name, Kind::kWholes, std::monostate(), range);
}

}  // namespace cohort
