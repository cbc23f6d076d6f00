#pragma once

// Reads one Feature, a list of values of one type, and appends its values to a column.
//
// Bytes are refused of which TensorFlow's parser and protobuf make different values, or lose some:
// a list that is given twice, floats that end inside a number. No writer makes such bytes.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/records/examples/feature.h"

namespace cohort {

// Appends the values of a serialized Feature, whose list must be of the type `type`. Sets
// `*is_set` to false if the Feature has no list; nothing is then appended. Errors: INVALID_ARGUMENT
// for a list of another type, and DATA_LOSS for malformed bytes; the messages name no key. After an
// error, some values may have been appended.
absl::Status AppendFeature(absl::string_view feature, FeatureType type, ColumnValues& values,
                           bool* is_set);

}  // namespace cohort
