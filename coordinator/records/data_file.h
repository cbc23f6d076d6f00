#pragma once

// A file of records that a person names on the command line, without a job that says what it is.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/records/record_format.h"
#include "common/records/record_stream.h"
#include "common/records/unpacked/compression.h"

namespace cohort {

enum class DataKind { kTfRecord, kCsv, kText };

// Returns "TFRecord", "CSV" or "text".
const char* DataKindName(DataKind kind);

struct DataFile {
  std::string path;
  DataKind kind = DataKind::kText;
  FileCompression compression = FileCompression::kNone;
  char delimiter = ',';  // between the fields of CSV

  RecordFormat format() const;
  // Gives the records to `take`. Errors: those of ScanRecords.
  absl::Status Scan(FileSystem& files,
                    absl::FunctionRef<bool(const ScannedRecord& record)> take) const;
};

// Finds out what a file is: TFRecords by their checksums, CSV and text by the file's ending (.csv
// and .tsv, also before .gz). Errors: UNIMPLEMENTED for files of other programs that are not read,
// naming the way out; those of the file.
absl::StatusOr<DataFile> RecognizeDataFile(FileSystem& files, const std::string& path);

// Returns what a file that does not exist yet is to be, by its ending: .tfrecord, .tfrecords, .csv,
// .tsv or .txt, also before .gz or .zlib. Errors: INVALID_ARGUMENT for another ending.
absl::StatusOr<DataFile> DataFileToWrite(const std::string& path);

}  // namespace cohort
