#pragma once

// Files of records as a job names them: CSV and tab-separated text, TFRecords of tf.train.Example,
// and lines of text; and the functions of their columns, named like Keras's preprocessing layers.

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

// A function of columns. Only the parameters of its class count.
struct MapSpec {
  std::string function;                  // the class, such as "StringLookup"
  std::vector<std::string> inputs = {};  // columns
  std::string output = {};               // the column of the result; "": that of the input
  int64_t num_bins = 0;
  std::vector<uint64_t> salt = {};
  std::optional<std::string> mask = {};  // a text, or an integer as text
  std::vector<std::string> vocabulary = {};
  int64_t num_oov_indices = 1;
  std::vector<double> boundaries = {};
  std::vector<double> mean = {};
  std::vector<double> variance = {};
  std::string dtype = "float32";
  double scale = 1;
  double offset = 0;
  int64_t num_tokens = 0;
  std::string output_mode = "multi_hot";

  friend bool operator==(const MapSpec&, const MapSpec&) = default;
};

proto::Map ToProto(const MapSpec& spec);
// Changes the names of a data set's columns as the function does.
void ApplyToNames(const MapSpec& spec, std::vector<std::string>& columns);

}  // namespace cohort
