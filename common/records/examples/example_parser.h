#pragma once

// Reads serialized tf.train.Example messages straight into columns, as tf.io.parse_example does.
//
// Example has the field 1, Features; Features has the field 1, a map from keys to Features. The
// rules are those of TensorFlow's parser: of a key that a record has twice, the last one counts;
// two Examples one after the other are one; a Feature without a list counts as absent; a list
// without values does not, and so does not fit a shape that has values. Stricter than TensorFlow:
// feature_reader.h. A map entry without a key is refused.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/records/examples/feature.h"

namespace cohort {

// Parses records one after another. Thread-compatible.
class ExampleParser {
 public:
  // Makes a parser of these features. Errors: INVALID_ARGUMENT naming a key that is given twice, or
  // whose default values do not fit its type and shape.
  static absl::StatusOr<ExampleParser> Make(std::vector<FeatureSpec> features);

  const std::vector<FeatureSpec>& features() const { return features_; }
  // Returns columns without records, one for each feature.
  std::vector<FeatureColumn> NewColumns() const;

  // Appends one record. Strings become views of `record`, which must outlive the columns. Errors:
  // INVALID_ARGUMENT or DATA_LOSS naming the key and what is wrong with it; the columns are then
  // as before.
  absl::Status Append(absl::string_view record, absl::Span<FeatureColumn> columns);

 private:
  // The key that stood at one place of the last record, and its number among features_; -1: it is
  // not read. Most writers give every record the keys in one order, so that a key is found by
  // comparing it with the one expected.
  struct Expected {
    std::string key;
    int feature = -1;
  };
  // The number of values of a column before the record, and whether the record has the feature.
  struct RowState {
    size_t begin = 0;
    bool is_set = false;
  };

  explicit ExampleParser(std::vector<FeatureSpec> features);
  absl::Status ParseRecord(absl::string_view record, absl::Span<FeatureColumn> columns);
  absl::Status ParseFeatures(absl::string_view features, absl::Span<FeatureColumn> columns);
  absl::Status ParseEntry(absl::string_view entry, absl::Span<FeatureColumn> columns);
  absl::Status EndRow(size_t feature, FeatureColumn& column) const;
  int Find(absl::string_view key);

  std::vector<FeatureSpec> features_;
  std::vector<size_t> sizes_;  // for each feature: the values of its shape
  absl::flat_hash_map<std::string, int> by_key_;
  std::vector<Expected> order_;
  size_t place_ = 0;  // the number of keys of the present record so far
  std::vector<RowState> row_;
};

}  // namespace cohort
