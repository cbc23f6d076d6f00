#pragma once

// An optional ability of a file system: symbolic links. A user who makes a link at the path of an
// output means the file to which the link leads, so this file is replaced and the link stays.

#include <string>

#include "common/base/file_system.h"

namespace cohort {

// A file system that has symbolic links. Thread-safe.
class FileLinks {
 public:
  virtual ~FileLinks() = default;
  // Returns the path at which a file named `path` is to be written, as FollowLinks does in
  // path_check.h.
  virtual absl::StatusOr<std::string> Followed(const std::string& path) const = 0;
};

// Returns the path at which a file named `path` is to be written: that of FileLinks::Followed if
// the file system has links, and otherwise `path`.
absl::StatusOr<std::string> PlaceToWrite(FileSystem& files, const std::string& path);

}  // namespace cohort
