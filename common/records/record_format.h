#pragma once

// The ways in which a file is divided into records: where each record begins and ends, and what of
// its bytes is its content. Any record can be found from the beginning of any earlier one.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

struct RecordFormat {
  enum class Kind {
    kTfRecord,     // tfrecord.h
    kTextLines,    // TextLineDataset: lines end at LF; every CR is dropped
    kCsv,          // CsvDataset: records end at LF, CR LF or CR outside of quotes
    kFixedLength,  // FixedLengthRecordDataset: `bytes` bytes each
  };
  Kind kind = Kind::kTextLines;
  uint64_t bytes = 0;  // length of a kFixedLength record
  // The bytes before the first kFixedLength record and after the last one.
  uint64_t header_bytes = 0;
  uint64_t footer_bytes = 0;
  bool quotes = true;  // kCsv: `"` begins a field in which line ends are text
  // kCsv: records that begin with this text, outside of quotes, are passed over; "": none is.
  std::string comment = {};
  bool skip_blank = false;  // kCsv: true: lines without any byte are passed over
};

// Finds the ends of records in the bytes of a file, which come in pieces from its beginning, or
// from the beginning of any record. Thread-compatible.
class RecordScanner {
 public:
  // Receives the offset in the file at which a record ends, which is where the next one begins.
  using OnEnd = absl::FunctionRef<void(uint64_t end)>;

  virtual ~RecordScanner() = default;
  // Takes the next bytes. Errors: DATA_LOSS naming the record's offset.
  virtual absl::Status Add(absl::string_view bytes, OnEnd on_end) = 0;
  // Takes the end of the file. Errors: DATA_LOSS if it lies inside a record.
  virtual absl::Status Finish(OnEnd on_end) = 0;
};

// Makes a scanner for bytes that begin at `offset`, where a record begins.
std::unique_ptr<RecordScanner> MakeRecordScanner(const RecordFormat& format, uint64_t offset);

// Returns the content of a record, whose bytes from its beginning to its end are `extent`, at
// `offset` of the file; changes bytes of `extent` that are no content. Errors: DATA_LOSS.
absl::StatusOr<absl::string_view> RecordContent(const RecordFormat& format, absl::Span<char> extent,
                                                uint64_t offset);

}  // namespace cohort
