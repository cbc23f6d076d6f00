#pragma once

// Checks of paths that a user names, against the file systems of this machine. The checks create
// nothing, so they also suit a process that only validates its configuration. A path may still
// become unusable after its check; the code that writes to the path handles that error.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Refuses the path "~" and paths that begin with "~/": only a shell expands "~", and nobody means a
// directory with the name "~". Errors: INVALID_ARGUMENT with the path and the remedy.
absl::Status CheckExpanded(absl::string_view path);

// Checks that `path` is a directory, or that the missing part of `path` can be created below a
// directory. Errors: FAILED_PRECONDITION naming the part of `path` that is a file, a FIFO or a
// device.
absl::Status CheckDirectoryPath(const std::string& path);

// Checks that `path` is a regular file, or is missing and can be created as a file. Errors:
// FAILED_PRECONDITION if `path` ends in a slash, or is a directory or another file that is not
// regular; the errors of CheckDirectoryPath for the directory of `path`.
absl::Status CheckFilePath(const std::string& path);

// The identity of a file on this machine: different paths of one file have equal FilePlaces.
// Thread-compatible.
class FilePlace {
 public:
  explicit FilePlace(const std::string& path);

  // Returns whether the two places are the same file or directory. Two existing files are compared
  // by device and inode, and otherwise the absolute paths are compared, with links resolved.
  bool IsSame(const FilePlace& other) const;
  // Returns whether this place lies below `directory`, judged by the two absolute paths.
  bool IsBelow(const FilePlace& directory) const;

 private:
  bool exists_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  std::string path_;  // absolute path, without a slash at its end
};

}  // namespace cohort
