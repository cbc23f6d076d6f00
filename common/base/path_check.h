#pragma once

// Checks of paths that a user names, against the file systems of this machine. The checks create
// nothing, so they also suit a process that only validates its configuration. A path may still
// become unusable after its check; the code that writes to the path handles that error.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Refuses what is no path of this machine's files, though a directory of that name could be made:
// the path "~" and paths that begin with "~/", which only a shell expands, and URLs such as
// "s3://bucket/x" or "file:///x". Errors: INVALID_ARGUMENT with the path and the remedy.
absl::Status CheckLocalPath(absl::string_view path);

// Checks that `path` is a directory in which files can be created, or can become one. Errors:
// FAILED_PRECONDITION naming the part of the path that is a file, a FIFO or a device, or for a path
// below /proc or /sys, where even root makes no files;
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
