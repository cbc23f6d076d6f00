#pragma once

// The values of records for people and for conversions: features of tf.train.Example by their
// names, fields of CSV by their columns, and lines of text as the feature "text".

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/example.pb.h"

namespace cohort {

using FeatureValues =
    std::variant<std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;
using RecordValues = std::map<std::string, FeatureValues>;

// Parses a tf.train.Example. Errors: INVALID_ARGUMENT for bytes that are none.
absl::StatusOr<RecordValues> ValuesOfExample(absl::string_view record);

// Splits a record of CSV into its fields, without their quotes. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::vector<std::string>> FieldsOfCsv(absl::string_view record, char delimiter);
// Returns a field as CSV has it, in quotes where these are needed.
std::string CsvField(absl::string_view value, char delimiter);

// Returns the shortest text that reads as the number.
std::string NumberText(float value);

// Returns values as JSON: numbers, and texts; bytes that are no UTF-8 as {"base64": …}.
nlohmann::ordered_json ToJson(const RecordValues& values);
// Returns the tf.train.Example of values.
proto::Example ToExample(const RecordValues& values);

}  // namespace cohort
