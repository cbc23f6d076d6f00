#pragma once

// Durable files. A writer writes a file once from its start, syncs and closes the file, and renames
// the file to its final name. No file is changed in place. Every error message names the file's
// path.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status.h"

namespace cohort {

// A new file that is open for appending. Thread-compatible.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// A file that is open for reading at any offset. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Returns the time of the file's last change in nanoseconds since 1970, or 0 where the file
  // system does not know it.
  virtual int64_t modified_ns() const { return 0; }
  // Fills `out` with the file's bytes from `offset` on. Errors: OUT_OF_RANGE if the file ends
  // before `out` is full; otherwise the error of the operating system.
  virtual absl::Status Read(uint64_t offset, absl::Span<char> out) const = 0;
};

// A lock that this process holds. It ends with this object, or with the process. Thread-compatible.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// The interface through which all durable files are read and written. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a new file at `path`. Errors: ALREADY_EXISTS, also if `path` is a symbolic link;
  // NOT_FOUND if the directory does not exist; PERMISSION_DENIED; RESOURCE_EXHAUSTED. Writers
  // usually go through temporary_file.h.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Opens a file for reading. Errors: NOT_FOUND; PERMISSION_DENIED; FAILED_PRECONDITION if `path`
  // is not a regular file.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Returns the names (not the paths) of the directory's entries, sorted. Errors: NOT_FOUND if the
  // directory does not exist.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
  // Renames the file `from` to `to` in one step, replacing a file at `to`, and makes the entries of
  // the directory of `to` durable. Errors: NOT_FOUND if `from` does not exist; FAILED_PRECONDITION
  // if `to` is not a regular file.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty directory. Removing a missing path succeeds. Errors:
  // FAILED_PRECONDITION for a directory with entries.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Creates the directory `path` and its missing parents, durably. Errors: FAILED_PRECONDITION if a
  // part of the path is a file.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Locks `path`, a file that exists as long as the lock and has the text `holder`. Errors:
  // FAILED_PRECONDITION naming the holder, if another one has the lock; UNIMPLEMENTED where the
  // file system has no locks.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                         const std::string& holder) {
    return absl::UnimplementedError("this file system has no locks");
  }
};

absl::StatusOr<std::string> ReadFile(FileSystem& files, const std::string& path);

std::string JoinPath(absl::string_view directory, absl::string_view name);
std::string DirectoryOf(absl::string_view path);  // returns "." for a path without a directory
std::string BaseName(absl::string_view path);

}  // namespace cohort
