#include "coordinator/records/record_values.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/utf8.h"
#include "nlohmann/json.hpp"

namespace cohort {

namespace {

using nlohmann::ordered_json;

ordered_json JsonOf(int64_t value) { return value; }
ordered_json JsonOf(float value) {
  // JSON has no such numbers.
  if (!std::isfinite(value)) return NumberText(value);
  return static_cast<double>(value);
}
ordered_json JsonOf(const std::string& value) {
  if (IsUtf8(value)) return value;
  return {{"base64", absl::Base64Escape(value)}};
}

}  // namespace

absl::StatusOr<RecordValues> ValuesOfExample(absl::string_view record) {
  proto::Example example;
  if (!example.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return absl::InvalidArgumentError("is no tf.train.Example");
  }
  if (!example.GetReflection()->GetUnknownFields(example).empty()) {
    return absl::InvalidArgumentError(
        "has fields that tf.train.Example does not have, as tf.train.SequenceExample does");
  }
  RecordValues values;
  for (const auto& [name, feature] : example.features().feature()) {
    FeatureValues& found = values[name];
    if (feature.has_int64_list()) {
      const auto& list = feature.int64_list().value();
      found = std::vector<int64_t>(list.begin(), list.end());
    } else if (feature.has_float_list()) {
      const auto& list = feature.float_list().value();
      found = std::vector<float>(list.begin(), list.end());
    } else {
      const auto& list = feature.bytes_list().value();
      found = std::vector<std::string>(list.begin(), list.end());
    }
  }
  return values;
}

absl::StatusOr<std::vector<std::string>> FieldsOfCsv(absl::string_view record, char delimiter) {
  std::vector<std::string> fields;
  while (true) {
    std::string& field = fields.emplace_back();
    const bool is_quoted = !record.empty() && record[0] == '"';
    if (is_quoted) record.remove_prefix(1);
    size_t at = 0;
    for (; at < record.size(); ++at) {
      if (!is_quoted && record[at] == delimiter) break;
      if (is_quoted && record[at] == '"') {
        // Two quotes in quotes are one; one ends the field.
        if (at + 1 == record.size() || record[at + 1] != '"') break;
        ++at;
      }
      field.push_back(record[at]);
    }
    if (is_quoted) {
      if (at == record.size()) return absl::InvalidArgumentError("has a quote that does not end");
      ++at;
    }
    if (at == record.size()) return fields;
    if (record[at] != delimiter) {
      return absl::InvalidArgumentError("has text behind a field in quotes");
    }
    record.remove_prefix(at + 1);
  }
}

std::string CsvField(absl::string_view value, char delimiter) {
  const bool needs_quotes = value.find(delimiter) != absl::string_view::npos ||
                            value.find_first_of("\"\r\n") != absl::string_view::npos;
  if (!needs_quotes) return std::string(value);
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\"");
}

std::string NumberText(float value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

ordered_json ToJson(const RecordValues& values) {
  ordered_json json = ordered_json::object();
  for (const auto& [name, feature] : values) {
    ordered_json list = ordered_json::array();
    std::visit(
        [&](const auto& all) {
          for (const auto& one : all) list.push_back(JsonOf(one));
        },
        feature);
    json[IsUtf8(name) ? name : absl::CHexEscape(name)] = std::move(list);
  }
  return json;
}

proto::Example ToExample(const RecordValues& values) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const auto& [name, feature] : values) {
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&feature)) {
      features[name].mutable_int64_list()->mutable_value()->Assign(ints->begin(), ints->end());
    } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
      features[name].mutable_float_list()->mutable_value()->Assign(floats->begin(), floats->end());
    } else {
      const auto& texts = std::get<std::vector<std::string>>(feature);
      features[name].mutable_bytes_list()->mutable_value()->Assign(texts.begin(), texts.end());
    }
  }
  return example;
}

}  // namespace cohort
