#pragma once

// Keeps the indexes of files of records. An index is stored in a file beside the data, named like
// it with kIndexEnding, or, where no file can be written there, in a cache directory. It is used
// again only for a file that has the same length, time of change, first and last bytes, and for the
// same format; else a new one is made. Two processes may make the same index at once; the last one
// to end replaces the file of the other, which is equal.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/records/record_file.h"
#include "proto/record_index.pb.h"

namespace cohort {

inline constexpr char kIndexEnding[] = ".cohort-index";

// Reads what tells the file from others: its first and last 64 KiB, its length and time.
absl::StatusOr<proto::FileFingerprint> FingerprintOf(const ReadableFile& file);
bool IsSameFile(const proto::FileFingerprint& a, const proto::FileFingerprint& b);

// Returns the bytes of an index file.
std::string StoreIndex(const FileIndex& index, const RecordFormat& format,
                       const proto::FileFingerprint& file);
// Reads the bytes of an index file, which nobody has checked. Errors: NOT_FOUND if the index is not
// that of this file and format; DATA_LOSS for damaged bytes.
absl::StatusOr<FileIndex> RestoreIndex(absl::string_view bytes, const RecordFormat& format,
                                       const proto::FileFingerprint& file);

// Finds or makes the index of files. Thread-safe.
class IndexStore {
 public:
  // `cache_directory` is for files in directories that cannot be written to; empty: their indexes
  // are not kept.
  IndexStore(FileSystem& files, std::string cache_directory)
      : files_(files), cache_directory_(std::move(cache_directory)) {}

  // Returns the index of the file at `path`, which `file` reads. An index that cannot be kept is
  // only logged. Errors: those of IndexFile().
  absl::StatusOr<FileIndex> Get(const ReadableFile& file, const std::string& path,
                                const RecordFormat& format, FileCompression compression);

  // Returns the path in the cache directory of the index of the file at `path`.
  std::string CachePath(const std::string& path) const;

 private:
  FileSystem& files_;
  const std::string cache_directory_;
};

}  // namespace cohort
