#pragma once

// The FileSystem of every daemon: files of the machine through POSIX calls.

#include <string>

#include "common/base/file_links.h"
#include "common/base/file_system.h"

namespace cohort {

// Returns the absolute path of the process's working directory, at which relative paths begin, or
// "" if the system does not report one.
std::string WorkingDirectory();

// The file system of the machine, through POSIX calls. Thread-safe.
class PosixFileSystem final : public FileSystem, public FileLinks {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& holder) override;
  absl::StatusOr<std::string> Followed(const std::string& path) const override;
};

}  // namespace cohort
