#pragma once

// Checks of paths that a user names, by looking at this machine's disks. Nothing is created, so a
// check may run where nothing is to be started. A path may still become unusable after its check;
// whoever writes to it handles the error.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Refuses a path that begins with "~" or "~/", which only a shell expands: nobody means a directory
// with that name. Errors: INVALID_ARGUMENT with the path and the remedy.
absl::Status CheckExpanded(absl::string_view path);

// Checks that `path` is a directory in which files can be created, or can become one. Errors:
// FAILED_PRECONDITION naming the part of the path that is a file, a FIFO or a device;
// PERMISSION_DENIED or another error of the system naming the part that cannot be written to, which
// may also lie in a file system that is read-only.
absl::Status CheckDirectoryPath(const std::string& path);

// Returns the path at which a file named `path` is to be written: `path` itself or, if it is a
// symbolic link, the path to which it leads in the end, whether there is a file or not. Links in
// the directories of `path` stay in the result. Errors: FAILED_PRECONDITION for a path that lies or
// leads below /dev or /proc, for links that never end, and for a link that another user has made in
// a directory in which everybody may make files.
absl::StatusOr<std::string> FollowLinks(const std::string& path);

// Checks that `path` is a regular file or can become one. Errors: those of FollowLinks;
// FAILED_PRECONDITION for a path that ends in a slash, for one that is or leads to a directory or
// another file that is not regular, and those of CheckDirectoryPath for its directory.
absl::Status CheckFilePath(const std::string& path);

// The place of a file on this machine, by which different names of one file are equal.
// Thread-compatible.
class FilePlace {
 public:
  explicit FilePlace(const std::string& path);

  // Returns whether both are one file or directory: by device and inode if both exist, and
  // otherwise by their absolute paths without links.
  bool IsSame(const FilePlace& other) const;
  // Returns whether this place would lie below `directory`, judged by their paths.
  bool IsBelow(const FilePlace& directory) const;

 private:
  bool exists_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  std::string path_;  // absolute, without a slash at its end
};

}  // namespace cohort
