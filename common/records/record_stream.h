#pragma once

// The records of a file one after another, from front to back, without an index.

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/records/record_format.h"
#include "common/records/unpacked/compression.h"

namespace cohort {

struct ScannedRecord {
  uint64_t number = 0;
  uint64_t offset = 0;  // the record's beginning in the unpacked data
  // The content, a view until the next record; or DATA_LOSS for a record whose bytes are damaged
  // although its end is known.
  absl::StatusOr<absl::string_view> content;
};

// Gives the records of the file to `take`, until it returns false. kAuto becomes the compression
// that the content shows. Errors: those of CompressionOf; DATA_LOSS naming the path and the offset
// for damage behind which no record can be found; those of the file.
absl::Status ScanRecords(const ReadableFile& file, const std::string& path,
                         const RecordFormat& format, FileCompression compression,
                         absl::FunctionRef<bool(const ScannedRecord& record)> take);

}  // namespace cohort
