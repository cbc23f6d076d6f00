#pragma once

// Files of records as a job names them: CSV and tab-separated text, TFRecords of tf.train.Example,
// and lines of text.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/plan.pb.h"

namespace cohort {

// A column of a CSV file, or a feature of a tf.train.Example.
struct RecordField {
  using Value = std::variant<int64_t, double, std::string>;

  std::string name;
  std::string dtype = "float32";  // "int64", "int32", "float32", "float64" or "string"
  // The shape of a feature: that of one record's values; -1 at its beginning: any number of steps.
  std::vector<int64_t> shape;
  std::optional<Value> default_value;  // for a record without it; absent: an error
  bool is_read = true;                 // false: the field is passed over

  friend bool operator==(const RecordField&, const RecordField&) = default;
};

struct RecordSpec {
  enum class Kind { kCsv, kTfRecord, kTextLines };

  Kind kind = Kind::kCsv;
  std::vector<std::string> paths = {};
  std::string compression = "auto";
  std::vector<RecordField> fields = {};  // kTextLines has none
  // The fields below are those of kCsv.
  bool header = false;  // true: the first record of each file is no example
  std::string delimiter = ",";
  std::string na_value = {};
  bool trim = false;
  std::string comment = {};
  bool skip_blank_lines = false;
  // The name of the only column of kTextLines.
  std::string column = "text";

  friend bool operator==(const RecordSpec&, const RecordSpec&) = default;
};

// Returns the names of the columns that are read.
std::vector<std::string> FieldNames(const RecordSpec& spec);
proto::RecordFiles ToProto(const RecordSpec& spec);

}  // namespace cohort
