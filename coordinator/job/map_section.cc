// Functions of columns in the section `data`.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/utf8.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kTokensMax = size_t{1} << 20;
constexpr int64_t kBinsMax = int64_t{1} << 40;
constexpr int64_t kAdaptedBinsMax = int64_t{1} << 16;
constexpr int64_t kTokensOfEncodingMax = int64_t{1} << 24;
constexpr int64_t kLengthMax = int64_t{1} << 20;
constexpr int64_t kNgramsMax = 16;
constexpr int64_t kSideMax = int64_t{1} << 15;

// Reads a list of numbers of any sign, if the key is there.
void ReadNumbers(ObjectReader& config, const std::string& key,
                 std::optional<std::vector<double>>& numbers) {
  if (const json* const value = config.Find(key)) {
    const json list = value->is_array() ? *value : json::array({*value});
    if (!std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_number(); })) {
      return config.AddError(key, absl::StrCat("is ", JsonExcerpt(*value),
                                               "; it must be a number or a list of numbers"));
    }
    numbers = list.get<std::vector<double>>();
  }
  if (numbers) config.RecordAs(key, *numbers);
}

// The key of a token whose bytes are not UTF-8, which JSON cannot hold as a text.
constexpr char kBase64[] = "base64";

// Reads one token: a text, its bytes as {"base64": …}, or, of IntegerLookup, an integer.
std::optional<std::string> TokenOf(const json& value, bool integers) {
  if (value.is_string() && !integers) return value.get<std::string>();
  if (value.is_number_integer()) return absl::StrCat(value.get<int64_t>());
  std::string bytes;
  const bool is_coded = !integers && value.is_object() && value.size() == 1 &&
                        value.contains(kBase64) && value[kBase64].is_string() &&
                        absl::Base64Unescape(value[kBase64].get<std::string>(), &bytes);
  if (!is_coded) return std::nullopt;
  return bytes;
}

ordered_json Recorded(const std::string& token, bool integers) {
  int64_t number = 0;
  if (integers && absl::SimpleAtoi(token, &number)) return number;
  if (IsUtf8(token)) return token;
  return {{kBase64, absl::Base64Escape(token)}};
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

// Reads a list of tokens.
void ReadTokens(ObjectReader& config, const json& list, bool integers, MapSpec& map) {
  if (list.size() > kTokensMax) {
    return config.AddError("vocabulary", absl::StrCat("has ", list.size(), " tokens, above ",
                                                      kTokensMax, "; give a file of tokens"));
  }
  map.vocabulary.emplace();
  for (const json& one : list) {
    const std::optional<std::string> token = TokenOf(one, integers);
    if (!token) {
      return config.AddError("vocabulary",
                             absl::StrCat("has ", JsonExcerpt(one), "; its tokens must be ",
                                          integers ? "integers" : "texts"));
    }
    map.vocabulary->push_back(*token);
  }
}

// Reads the path of a file of tokens, or a list of them. Without either the vocabulary is adapted.
void ReadVocabulary(ObjectReader& config, bool integers, MapSpec& map) {
  if (const json* const value = config.Find("vocabulary")) {
    if (value->is_array()) {
      ReadTokens(config, *value, integers, map);
    } else if (value->is_string() && !value->get<std::string>().empty()) {
      map.vocabulary_file = value->get<std::string>();
    } else {
      config.AddError("vocabulary", absl::StrCat("is ", JsonExcerpt(*value),
                                                 "; it must be a list of tokens, the path of a "
                                                 "file of them, or absent to adapt it"));
    }
  }
  if (!map.vocabulary_file.empty()) {
    config.RecordAs("vocabulary", map.vocabulary_file);
  } else if (map.vocabulary) {
    ordered_json record = ordered_json::array();
    for (const std::string& token : *map.vocabulary) record.push_back(Recorded(token, integers));
    config.RecordAs("vocabulary", record);
  }
  config.OptionalInt("max_tokens", {.min = 1, .max = kBinsMax}, &map.max_tokens);
}

// Takes the tokens with an index of their own off a vocabulary that begins with them, as the result
// of Keras's get_vocabulary() does. Elsewhere such a token is an error, as in Keras.
void StripSpecialTokens(ObjectReader& config, const std::vector<std::string>& special,
                        MapSpec& map) {
  if (!map.vocabulary || config.recording()) return;
  std::vector<std::string>& tokens = *map.vocabulary;
  if (tokens.size() >= special.size() &&
      std::equal(special.begin(), special.end(), tokens.begin())) {
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(special.size()));
  }
  for (const std::string& one : special) {
    if (std::count(tokens.begin(), tokens.end(), one) == 0) continue;
    return config.AddError(
        "vocabulary", absl::StrCat("has '", Excerpt(one),
                                   "', which is the mask or stands for unknown tokens and has an "
                                   "index of its own; leave it out"));
  }
}

void ReadLookup(ObjectReader& config, bool integers, MapSpec& map) {
  ReadVocabulary(config, integers, map);
  config.Int("num_oov_indices", {.min = 0, .max = kBinsMax}, &map.num_oov_indices);
  ReadMask(config, "mask_token", integers, map);
  std::vector<std::string> special;
  if (map.mask) special.push_back(*map.mask);
  constexpr int64_t kSpecialMax = 1000;
  special.insert(special.end(), static_cast<size_t>(std::min(map.num_oov_indices, kSpecialMax)),
                 integers ? "-1" : "[UNK]");
  StripSpecialTokens(config, special, map);
  config.OnlyNeutral("invert", false);
  config.OnlyNeutral("output_mode", "int");
  config.OnlyNeutral("idf_weights", nullptr);
  config.OnlyNeutral("pad_to_max_tokens", false);
  config.OnlyNeutral("sparse", false);
  config.Ignore("oov_token");  // it only names what has the indices of unknown tokens
}

// Reads one of Keras's names, for the first of which null may stand.
void ReadNameOrNull(ObjectReader& config, const char* key, const std::vector<std::string>& names,
                    std::string& out) {
  if (config.HoldsNull(key)) out = names[0];
  config.Choice(key, names, &out);
}

void ReadTextVectorization(ObjectReader& config, MapSpec& map) {
  ReadVocabulary(config, /*integers=*/false, map);
  ReadNameOrNull(config, "standardize",
                 {"none", "lower", "strip_punctuation", "lower_and_strip_punctuation"},
                 map.standardize);
  ReadNameOrNull(config, "split", {"none", "whitespace", "character"}, map.split);
  config.Int("ngrams", {.min = 1, .max = kNgramsMax}, &map.ngrams);
  if (map.output_mode.empty()) map.output_mode = "int";
  config.Choice("output_mode", {"int", "multi_hot", "count"}, &map.output_mode);
  if (config.Given("output_sequence_length", map.length > 0)) {
    config.Int("output_sequence_length", {.min = 1, .max = kLengthMax}, &map.length);
  }
  StripSpecialTokens(config,
                     map.output_mode == "int" ? std::vector<std::string>{"", "[UNK]"}
                                              : std::vector<std::string>{"[UNK]"},
                     map);
  if (map.length > 0 && map.output_mode != "int") {
    config.AddError("output_sequence_length", "is for output_mode int; leave it out");
  }
  config.OnlyNeutral("encoding", "utf-8");
  config.OnlyNeutral("idf_weights", nullptr);
  config.OnlyNeutral("pad_to_max_tokens", false);
  config.OnlyNeutral("sparse", false);
  config.Ignore("ragged");  // without output_sequence_length the result always is
}

void ReadDiscretization(ObjectReader& config, MapSpec& map) {
  ReadNumbers(config, "bin_boundaries", map.boundaries);
  if (map.boundaries && !std::is_sorted(map.boundaries->begin(), map.boundaries->end())) {
    config.AddError("bin_boundaries", "do not ascend");
  }
  if (config.Given("num_bins", map.num_bins > 0)) {
    config.Int("num_bins", {.min = 1, .max = kAdaptedBinsMax}, &map.num_bins);
  }
  if (map.boundaries && map.num_bins > 0 &&
      map.num_bins != static_cast<int64_t>(map.boundaries->size()) + 1) {
    config.AddError("num_bins",
                    absl::StrCat("is ", map.num_bins, ", and bin_boundaries make ",
                                 map.boundaries->size() + 1, " bins; leave one of the two out"));
  }
  if (!config.recording() && !map.boundaries && map.num_bins == 0) {
    config.AddError("bin_boundaries",
                    "is missing; give the boundaries, or num_bins to adapt them to the data");
  }
  config.OnlyNeutral("output_mode", "int");
  config.Ignore("epsilon");  // adapted boundaries are closer than any
}

void ReadNormalization(ObjectReader& config, MapSpec& map) {
  ReadNumbers(config, "mean", map.mean);
  std::optional<std::vector<double>> variance;
  if (!map.variance.empty()) variance = map.variance;
  ReadNumbers(config, "variance", variance);
  map.variance = variance.value_or(std::vector<double>());
  if (map.mean.has_value() != variance.has_value()) {
    config.AddError(map.mean ? "variance" : "mean",
                    "is missing; give both mean and variance, or neither to adapt them");
  }
  config.OnlyNeutral("invert", false);
  if (config.HoldsNull("axis")) map.by_last_axis = false;
  if (!map.by_last_axis) config.RecordAs("axis", nullptr);
  const json* const axis = config.Find("axis");
  // Where mean and variance are given, they have a number for each value, or one for all.
  if (!map.mean && axis != nullptr && *axis != json(-1) && *axis != json::array({-1})) {
    config.AddError("axis", absl::StrCat("is ", JsonExcerpt(*axis),
                                         "; mean and variance adapt to the last axis, -1, or to "
                                         "all numbers together, null"));
  }
}

void ReadPad(ObjectReader& config, MapSpec& map) {
  config.Require("length");
  config.Int("length", {.min = 1, .max = kLengthMax}, &map.length);
  if (const json* const value = config.Find("value")) {
    if (value->is_number_integer()) {
      map.value = value->get<int64_t>();
    } else if (value->is_number()) {
      map.value = value->get<double>();
    } else if (value->is_string()) {
      map.value = value->get<std::string>();
    } else {
      config.AddError("value",
                      absl::StrCat("is ", JsonExcerpt(*value), "; it must be a number or a text"));
    }
  }
  if (map.value) std::visit([&](const auto& one) { config.RecordAs("value", one); }, *map.value);
}

void ReadDecodeImage(ObjectReader& config, MapSpec& map) {
  for (const char* key : {"height", "width"}) config.Require(key);
  config.Int("height", {.min = 1, .max = kSideMax}, &map.height);
  config.Int("width", {.min = 1, .max = kSideMax}, &map.width);
  config.Int("channels", {.min = 1, .max = 4}, &map.channels);
  if (map.channels == 2) config.AddError("channels", "is 2; it must be 1, 3 or 4");
  config.Choice("interpolation", {"bilinear", "nearest", "bicubic"}, &map.interpolation);
  config.Choice("dct_method", {"INTEGER_FAST", "INTEGER_ACCURATE"}, &map.dct_method);
}

void ReadDecodeRaw(ObjectReader& config, MapSpec& map) {
  config.Require("out_type");
  config.Choice("out_type", {"uint8", "int8", "int32", "int64", "float32", "float64"}, &map.dtype);
  config.Require("shape");
  config.Ints("shape", {.min = 1, .max = int64_t{1} << 28}, 0, &map.shape);
  config.Bool("little_endian", &map.little_endian);
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
  } else if (name == "TextVectorization") {
    ReadTextVectorization(config, map);
  } else if (name == "Discretization") {
    ReadDiscretization(config, map);
  } else if (name == "Normalization") {
    ReadNormalization(config, map);
  } else if (name == "Pad") {
    ReadPad(config, map);
  } else if (name == "DecodeImage") {
    ReadDecodeImage(config, map);
  } else if (name == "DecodeRaw") {
    ReadDecodeRaw(config, map);
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
    if (map.output_mode.empty()) map.output_mode = "multi_hot";
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

bool ReadMap(const JsonPlace& place, const std::vector<std::string>& columns, MapSpec& map) {
  std::vector<ClassChoice<MapSpec>> choices;
  for (const char* name :
       {"Hashing", "HashedCrossing", "StringLookup", "IntegerLookup", "Discretization",
        "Normalization", "Cast", "Log1p", "Rescaling", "CategoryEncoding", "TextVectorization",
        "Pad", "DecodeImage", "DecodeRaw", "Drop"}) {
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
