#pragma once

// The files of one checkpoint in its directory: prefix.index, prefix.data-* and what an interrupted
// save of it left under temporary names.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Paths, sorted. Empty when there are none. Errors: NOT_FOUND without the directory.
absl::StatusOr<std::vector<std::string>> ListCheckpointFiles(FileSystem& files,
                                                             const std::string& prefix);

// Prefixes (paths) of the complete checkpoints of a directory, sorted by name: those that have an
// index. Errors: NOT_FOUND without the directory.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(FileSystem& files,
                                                         const std::string& directory);

// Removes the index first, so that an interrupted deletion leaves no checkpoint that looks whole.
// Nothing to delete is not an error. The state file is the caller's: write it before deleting.
absl::Status DeleteCheckpoint(FileSystem& files, const std::string& prefix);

// The name to save a checkpoint called `name` under: `name` itself or, where that one is complete
// and so must not be written again, "name-2", "name-3", ... That happens when a save was cut off
// between index and state file, or when a job trains again into its old directory. Nothing is
// deleted. Errors: those of the file system; RESOURCE_EXHAUSTED after 1000 names.
absl::StatusOr<std::string> UnusedCheckpointName(FileSystem& files, const std::string& directory,
                                                 const std::string& name);

// The prefix that `which`, "latest" or a prefix, names; "" when there is no latest one. Errors:
// DATA_LOSS for a damaged state file.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& directory,
                                           const std::string& which);

}  // namespace cohort
