#pragma once

// A file of records that are read by their numbers, in any order: the file's bytes, unpacked if it
// is compressed, and the index of its records.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/records/record_format.h"
#include "common/records/record_index.h"
#include "common/records/unpacked/compression.h"
#include "common/records/unpacked/unpacked_file.h"

namespace cohort {

// The facts about a file that one reading from front to back finds.
struct FileIndex {
  FileCompression compression = FileCompression::kNone;
  UnpackedIndex unpacked;  // empty, unless the file is compressed
  RecordIndex records;
};

// Returns the compression of a file for which a user has asked for `asked`. Errors:
// FAILED_PRECONDITION for one that the content contradicts; those of the file.
absl::StatusOr<FileCompression> CompressionOf(const ReadableFile& file, const RecordFormat& format,
                                              FileCompression asked);

// Reads the whole file and makes its index. kAuto becomes the compression that the content shows.
// Errors: DATA_LOSS naming the path, the offset and the damage; FAILED_PRECONDITION for a
// compression that the content contradicts; those of the file.
absl::StatusOr<FileIndex> IndexFile(const ReadableFile& file, const std::string& path,
                                    const RecordFormat& format, FileCompression compression);

// Records that were read, and the memory that they are views of.
struct RecordBatch {
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<absl::string_view> records;
};

// Thread-safe.
class RecordFile {
 public:
  // `file` is the packed file. `cache` is shared with other files, and may be null (OpenUnpacked).
  RecordFile(std::unique_ptr<ReadableFile> file, std::string path, const RecordFormat& format,
             FileIndex index, std::shared_ptr<SpanCache> cache);

  const std::string& path() const { return path_; }
  uint64_t records() const { return index_.records; }
  // Returns the offset in the unpacked data of the place from which `record` is found, for
  // messages.
  uint64_t OffsetNear(uint64_t record) const;

  // Appends the records with these numbers to the batch, in the order of `numbers`, in which a
  // number may come again. Records near each other in the file are read together. Errors:
  // OUT_OF_RANGE for a number that the file has not; DATA_LOSS naming path, record and offset;
  // those of the file.
  absl::Status Read(absl::Span<const uint64_t> numbers, RecordBatch& batch) const;

 private:
  // A record to read, and its place among the records of the batch.
  struct Wanted {
    uint64_t number = 0;
    size_t slot = 0;
  };

  absl::Status ReadPlaces(size_t first, size_t last, absl::Span<const Wanted> wanted,
                          RecordBatch& batch) const;

  const std::string path_;
  const RecordFormat format_;
  const RecordIndex index_;
  const std::unique_ptr<ReadableFile> data_;  // unpacked
};

}  // namespace cohort
