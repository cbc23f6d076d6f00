#pragma once

// The features of tf.train.Example and SequenceExample that are read, and their values as columns:
// those of a batch of records one after another.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/records/columns/column_values.h"
#include "common/tensor/shape.h"

namespace cohort {

// The list of values that a Feature has, by TensorFlow's names: int64_list, float_list, bytes_list.
enum class FeatureType { kInt64, kFloat, kBytes };

// Returns NumPy's name of the elements' type: "int64", "float32" or "string".
absl::string_view FeatureTypeName(FeatureType type);

// A feature to read.
struct FeatureSpec {
  // kFixed: every record has as many values as `shape` says (FixedLenFeature). kVaries: a record
  // has any number of steps, each of `shape` (VarLenFeature and RaggedFeature have the shape [];
  // FixedLenSequenceFeature has another).
  enum class Length { kFixed, kVaries };

  std::string key;
  FeatureType type = FeatureType::kInt64;
  Length length = Length::kFixed;
  Shape shape = {};
  // With kFixed: the values of a record that lacks the feature, as many as `shape` says, or one for
  // all; absent: such a record is an error. A record with kVaries that lacks it has no steps.
  std::optional<ColumnValues> default_values = {};
};

// The values of one feature of a batch of records.
struct FeatureColumn {
  ColumnValues values;
  // With kVaries: entry i is the number of steps of all records before record i. The last entry
  // counts all steps.
  std::vector<int64_t> row_splits;
};

}  // namespace cohort
