#pragma once

// The files of checkpoints in their directory: prefix.index, prefix.data-* and what an interrupted
// save left under temporary names (temporary_file.h).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Returns the name of a checkpoint that is saved after `step`, "ckpt-<step>", before
// UnusedCheckpointName makes it unique.
std::string CheckpointNameOfStep(int64_t step);

// Returns whether a save of the checkpoint called `base` writes a file called `name`: "model" is
// also the beginning of the names of checkpoint "model.data-set".
bool IsCheckpointFile(absl::string_view name, absl::string_view base);

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

// Returns the name to save a checkpoint called `name` under: `name` itself or, if that one is
// complete and so must not be written again, "name-2", "name-3", ... That happens when a save was
// cut off between index and state file, or when a job trains again into its old directory. Nothing
// is deleted. Errors: those of the file system; RESOURCE_EXHAUSTED after 1000 names.
absl::StatusOr<std::string> UnusedCheckpointName(FileSystem& files, const std::string& directory,
                                                 const std::string& name);

// Removes what saves of CheckpointNameOfStep left in the directory unfinished: data shards without
// an index, and temporary files. For the only writer of these names. What cannot be removed stays.
void RemoveUnfinishedSaves(FileSystem& files, const std::string& directory);

// Returns the prefix that `which` names: "latest", a prefix, or a prefix with the ".index" that a
// shell completes it to. The latest is the one that the state file names; without a state file, the
// checkpoint of the most steps; "" if there is none. Errors: DATA_LOSS for a damaged state file and
// NOT_FOUND for a state file whose latest checkpoint is missing, both naming the file, its content
// and IntactCheckpointsRemedy(); FAILED_PRECONDITION listing the checkpoints if there is no state
// file and their names do not tell which is the latest.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& directory,
                                           const std::string& which);

// Returns what to do where the checkpoint that was asked for cannot be had: the intact ones of the
// directory by name, at most 16 with the most steps last, and how to name one of them.
std::string IntactCheckpointsRemedy(FileSystem& files, const std::string& directory);

}  // namespace cohort
