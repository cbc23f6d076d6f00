#pragma once

// Durable bytes. A file is written once from its start, synced, closed and renamed into its final
// name; nothing is changed in place. Every error names the path.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status.h"

namespace cohort {

// Thread-compatible.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset` on. Errors: OUT_OF_RANGE beyond the end of the file; UNAVAILABLE or
  // INTERNAL from the system.
  virtual absl::Status Read(uint64_t offset, absl::Span<char> out) const = 0;
};

// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes a new file. Errors: ALREADY_EXISTS, also for a symbolic link; NOT_FOUND without the
  // directory; PERMISSION_DENIED; RESOURCE_EXHAUSTED. (temporary_file.h has what writers use.)
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Errors: NOT_FOUND, PERMISSION_DENIED.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Names (not paths) of the entries, sorted. Errors: NOT_FOUND.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
  // Moves a file over `to` in one step and makes the names in the directory of `to` durable.
  // Errors: NOT_FOUND.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty directory; a missing one is not an error. Errors:
  // FAILED_PRECONDITION for a directory with entries.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Makes the missing parents too, durably. Errors: FAILED_PRECONDITION when a part is a file.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
};

absl::StatusOr<std::string> ReadFile(FileSystem& files, const std::string& path);

std::string JoinPath(absl::string_view directory, absl::string_view name);
std::string DirectoryOf(absl::string_view path);  // "." when there is none
std::string BaseName(absl::string_view path);

}  // namespace cohort
