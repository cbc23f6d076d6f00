#pragma once

// Conversions between files of records: text, CSV and TFRecords of tf.train.Example, packed or not.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Writes the records of the file `from` to the file `to`, whose ending says what it is to be, and
// returns their number. The first record of a CSV file names its columns. A column of CSV becomes
// int64, float32 or bytes, the first of these that all its values are, and a missing value no
// feature; a line of text is the feature "text". Features with more than one value do not fit into
// CSV. Errors: INVALID_ARGUMENT naming the record, its column and what is wrong; DATA_LOSS; those
// of the files. Without success there is no file `to`.
absl::StatusOr<int64_t> ConvertRecords(FileSystem& files, const std::string& from,
                                       const std::string& to);

}  // namespace cohort
