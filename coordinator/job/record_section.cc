// Files of records in the section `data`, and the functions of their columns.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kFieldsMax = 4096;
constexpr size_t kTokensMax = size_t{1} << 20;
constexpr int64_t kBinsMax = int64_t{1} << 40;
constexpr int64_t kTokensOfEncodingMax = int64_t{1} << 24;

const std::vector<std::string>& DTypes() {
  static const auto* const kDTypes =
      new std::vector<std::string>{"int64", "int32", "float32", "float64", "string"};
  return *kDTypes;
}

// Reads a default of the field's type.
void ReadDefault(ObjectReader& config, RecordField& field) {
  const bool is_text = field.dtype == "string";
  const bool is_float = field.dtype == "float32" || field.dtype == "float64";
  if (const json* const value = config.Find("default")) {
    if (is_text && value->is_string()) {
      field.default_value = value->get<std::string>();
    } else if (is_float && value->is_number()) {
      field.default_value = value->get<double>();
    } else if (!is_text && !is_float && value->is_number_integer()) {
      field.default_value = value->get<int64_t>();
    } else {
      config.AddError("default",
                      absl::StrCat("is ", JsonExcerpt(*value), "; it must be a ", field.dtype));
    }
  }
  if (!field.default_value) return;
  std::visit([&](const auto& value) { config.RecordAs("default", value); }, *field.default_value);
}

void ReadField(ObjectReader& config, RecordField& field, bool of_csv) {
  config.Require("name");
  config.String("name", &field.name);
  config.Choice("dtype", DTypes(), &field.dtype);
  if (of_csv) {
    if (config.Given("read", !field.is_read)) config.Bool("read", &field.is_read);
  } else if (config.Given("shape", !field.shape.empty())) {
    config.NullableInts("shape", {.min = 0, .max = int64_t{1} << 28}, &field.shape);
    if (std::count(field.shape.begin(), field.shape.end(), -1) > 0 &&
        (field.shape[0] != -1 || std::count(field.shape.begin() + 1, field.shape.end(), -1) > 0)) {
      config.AddError("shape", "may have null in the first place alone");
    }
  }
  ReadDefault(config, field);
}

// Reads a list of objects, each by `read`.
template <typename Item, typename Read>
void ReadList(ObjectReader& config, const std::string& key, const char* what, size_t count_max,
              std::vector<Item>& items, Read read) {
  const std::optional<JsonPlace> place = config.Place(key);
  if (!place) return;
  if (place->value != nullptr) {
    items.clear();
    if (!place->value->is_array() || place->value->size() > count_max) {
      return config.AddError(
          key, absl::StrCat("is ", JsonExcerpt(*place->value), "; it must be a list of at most ",
                            count_max, " ", what));
    }
    items.resize(place->value->size());
  }
  if (place->record != nullptr) *place->record = ordered_json::array();
  for (size_t i = 0; i < items.size(); ++i) {
    JsonPlace item = {JoinKeys(place->path, absl::StrCat(i)), place->errors};
    if (place->value != nullptr) item.value = &(*place->value)[i];
    if (place->record != nullptr) item.record = &place->record->emplace_back();
    ObjectReader reader(item);
    read(reader, items[i]);
    reader.Finish();
  }
}

void CheckFields(ObjectReader& config, const char* key, const RecordSpec& spec) {
  if (FieldNames(spec).empty()) config.AddError(key, "names no column that is read");
  for (const RecordField& field : spec.fields) {
    const auto is_same = [&](const RecordField& other) { return other.name == field.name; };
    if (std::count_if(spec.fields.begin(), spec.fields.end(), is_same) < 2) continue;
    return config.AddError(key, absl::StrCat("names '", Excerpt(field.name), "' twice"));
  }
}

void ReadCompression(ObjectReader& config, RecordSpec& spec) {
  config.Choice("compression", {"auto", "none", "gzip", "zlib"}, &spec.compression);
}

// Reads a list of numbers of any sign.
void ReadNumbers(ObjectReader& config, const std::string& key, std::vector<double>& numbers) {
  if (const json* const value = config.Find(key)) {
    const json list = value->is_array() ? *value : json::array({*value});
    if (list.empty() ||
        !std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_number(); })) {
      return config.AddError(key, absl::StrCat("is ", JsonExcerpt(*value),
                                               "; it must be a number or a list of numbers"));
    }
    numbers = list.get<std::vector<double>>();
  }
  config.RecordAs(key, numbers);
}

// Reads one token, a text or, of IntegerLookup and of Hashing, an integer.
std::optional<std::string> TokenOf(const json& value, bool integers) {
  if (value.is_string() && !integers) return value.get<std::string>();
  if (value.is_number_integer()) return absl::StrCat(value.get<int64_t>());
  return std::nullopt;
}

ordered_json Recorded(const std::string& token, bool integers) {
  int64_t number = 0;
  if (integers && absl::SimpleAtoi(token, &number)) return number;
  return token;
}

void ReadMask(ObjectReader& config, const char* key, bool integers, MapSpec& map) {
  if (const json* const value = config.Find(key)) {
    map.mask = TokenOf(*value, integers);
    if (!map.mask) {
      config.AddError(key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be ",
                                        integers ? "an integer" : "a text"));
    }
  }
  if (map.mask) config.RecordAs(key, Recorded(*map.mask, integers));
}

void ReadVocabulary(ObjectReader& config, bool integers, MapSpec& map) {
  if (const json* const value = config.Require("vocabulary")) {
    map.vocabulary.clear();
    if (!value->is_array() || value->size() > kTokensMax) {
      return config.AddError(
          "vocabulary", absl::StrCat("is ", JsonExcerpt(*value), "; it must be a list of at most ",
                                     kTokensMax, " tokens"));
    }
    for (const json& one : *value) {
      const std::optional<std::string> token = TokenOf(one, integers);
      if (!token) {
        return config.AddError("vocabulary",
                               absl::StrCat("has ", JsonExcerpt(one), "; its tokens must be ",
                                            integers ? "integers" : "texts"));
      }
      map.vocabulary.push_back(*token);
    }
  }
  ordered_json record = ordered_json::array();
  for (const std::string& token : map.vocabulary) record.push_back(Recorded(token, integers));
  config.RecordAs("vocabulary", record);
}

void ReadLookup(ObjectReader& config, bool integers, MapSpec& map) {
  ReadVocabulary(config, integers, map);
  config.Int("num_oov_indices", {.min = 0, .max = kBinsMax}, &map.num_oov_indices);
  ReadMask(config, "mask_token", integers, map);
  config.OnlyNeutral("invert", false);
  config.OnlyNeutral("output_mode", "int");
  config.OnlyNeutral("max_tokens", nullptr);
  config.OnlyNeutral("idf_weights", nullptr);
  config.OnlyNeutral("pad_to_max_tokens", false);
  config.OnlyNeutral("sparse", false);
  config.Ignore("oov_token");  // it only names what has the indices of unknown tokens
}

void ReadSalt(ObjectReader& config, MapSpec& map) {
  if (const json* const value = config.Find("salt")) {
    const json list = value->is_array() ? *value : json::array({*value});
    const bool fits = (list.size() == 1 || list.size() == 2) &&
                      std::all_of(list.begin(), list.end(),
                                  [](const json& one) { return one.is_number_unsigned(); });
    if (!fits) {
      return config.AddError(
          "salt", absl::StrCat("is ", JsonExcerpt(*value), "; it must be one whole number or two"));
    }
    map.salt = list.get<std::vector<uint64_t>>();
  }
  if (!map.salt.empty()) config.RecordAs("salt", map.salt);
}

// Reads the parameters of a function, whose class is known.
void ReadParameters(ObjectReader& config, MapSpec& map) {
  const std::string& name = map.function;
  if (name == "Hashing" || name == "HashedCrossing") {
    config.Require("num_bins");
    config.Int("num_bins", {.min = 1, .max = kBinsMax}, &map.num_bins);
    config.OnlyNeutral("output_mode", "int");
    config.OnlyNeutral("sparse", false);
    if (name == "Hashing") {
      ReadSalt(config, map);
      ReadMask(config, "mask_value", /*integers=*/false, map);
    }
  } else if (name == "StringLookup" || name == "IntegerLookup") {
    ReadLookup(config, name == "IntegerLookup", map);
  } else if (name == "Discretization") {
    config.Require("bin_boundaries");
    ReadNumbers(config, "bin_boundaries", map.boundaries);
    if (!std::is_sorted(map.boundaries.begin(), map.boundaries.end())) {
      config.AddError("bin_boundaries", "do not ascend");
    }
    config.OnlyNeutral("output_mode", "int");
    config.OnlyNeutral("num_bins", nullptr);
    config.Ignore("epsilon");  // only adapting takes it
  } else if (name == "Normalization") {
    for (const char* key : {"mean", "variance"}) config.Require(key);
    ReadNumbers(config, "mean", map.mean);
    ReadNumbers(config, "variance", map.variance);
    config.OnlyNeutral("invert", false);
    config.Ignore("axis");  // mean and variance have a number for each value, or one for all
  } else if (name == "Cast") {
    config.Require("dtype");
    config.Choice("dtype", {"int64", "int32", "float32", "float64"}, &map.dtype);
  } else if (name == "Rescaling") {
    config.Require("scale");
    config.Number("scale", {}, &map.scale);
    config.Number("offset", {}, &map.offset);
  } else if (name == "CategoryEncoding") {
    config.Require("num_tokens");
    config.Int("num_tokens", {.min = 1, .max = kTokensOfEncodingMax}, &map.num_tokens);
    config.Choice("output_mode", {"one_hot", "multi_hot", "count"}, &map.output_mode);
    config.OnlyNeutral("sparse", false);
  }
}

bool TakesSeveral(const std::string& function) {
  return function == "Drop" || function == "HashedCrossing";
}

// Reads the columns that a function takes and the one that it makes.
void ReadColumns(ObjectReader& config, const std::vector<std::string>& columns, MapSpec& map) {
  if (TakesSeveral(map.function)) {
    config.Require("columns");
    config.Strings("columns", 1, "columns", &map.inputs);
  } else {
    std::string input = map.inputs.empty() ? "" : map.inputs[0];
    config.Require("column");
    config.String("column", &input);
    map.inputs = {input};
  }
  const char* const key = TakesSeveral(map.function) ? "columns" : "column";
  for (const std::string& input : map.inputs) {
    if (config.recording() || std::count(columns.begin(), columns.end(), input) > 0) continue;
    if (!input.empty()) config.AddError(key, UnknownName("column of data.train", input, columns));
  }
  if (map.function == "Drop") return;
  if (map.function == "HashedCrossing") config.Require("output");
  if (config.Given("output", !map.output.empty())) config.String("output", &map.output);
}

}  // namespace

void ReadRecords(ObjectReader& config, RecordSpec& spec) {
  config.Require("paths");
  config.Strings("paths", 1, "file names", &spec.paths);
  ReadCompression(config, spec);
  if (spec.kind == RecordSpec::Kind::kTextLines) return config.String("column", &spec.column);
  const bool of_csv = spec.kind == RecordSpec::Kind::kCsv;
  const char* const key = of_csv ? "columns" : "features";
  config.Require(key);
  ReadList(
      config, key, key, kFieldsMax, spec.fields,
      [of_csv](ObjectReader& reader, RecordField& field) { ReadField(reader, field, of_csv); });
  CheckFields(config, key, spec);
  if (!of_csv) return;
  config.Bool("header", &spec.header);
  config.String("delimiter", &spec.delimiter);
  if (spec.delimiter.size() != 1) config.AddError("delimiter", "must be one byte");
  config.String("na_value", &spec.na_value);
  config.Bool("trim", &spec.trim);
  config.String("comment", &spec.comment);
  config.Bool("skip_blank_lines", &spec.skip_blank_lines);
}

bool ReadMap(const JsonPlace& place, const std::vector<std::string>& columns, MapSpec& map) {
  std::vector<ClassChoice<MapSpec>> choices;
  for (const char* name :
       {"Hashing", "HashedCrossing", "StringLookup", "IntegerLookup", "Discretization",
        "Normalization", "Cast", "Log1p", "Rescaling", "CategoryEncoding", "Drop"}) {
    choices.push_back({name, {.function = name}});
  }
  const auto fields = [&](ObjectReader& config, MapSpec& found) {
    ReadColumns(config, columns, found);
    ReadParameters(config, found);
    for (const char* key : {"name", "trainable"}) config.Ignore(key);
    if (found.function != "Cast") config.Ignore("dtype");
  };
  return ReadClass(place, "function of columns", choices, map.function, fields, map);
}

}  // namespace cohort
