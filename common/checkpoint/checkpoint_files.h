#pragma once

// The files of the checkpoints in a directory: prefix.index, prefix.data-*, the temporary files
// that an interrupted save has left (temporary_file.h), and the state file `checkpoint`, which
// names the latest checkpoint. A checkpoint of a model whose data went through functions of columns
// also has prefix.preprocessing.json, which TensorFlow does not know.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Returns the name of a checkpoint that is saved after step `step`: "ckpt-<step>".
// UnusedCheckpointName then makes the name unique.
std::string CheckpointNameOfStep(int64_t step);

// Returns the path of the state of the functions through which the data went with which `weights`
// were trained, the prefix of a checkpoint or an exported file.
std::string PreprocessingPath(const std::string& weights);

// Returns true if a file called `name` belongs to the checkpoint called `base`. It is not enough
// that `name` begins with `base`: the files of a checkpoint "model.data-set" also begin with
// "model".
bool IsCheckpointFile(absl::string_view name, absl::string_view base);

// Returns the paths of the files of the checkpoint `prefix`, sorted; none if the checkpoint has no
// files. Errors: NOT_FOUND if the directory does not exist.
absl::StatusOr<std::vector<std::string>> ListCheckpointFiles(FileSystem& files,
                                                             const std::string& prefix);

// Returns the prefixes (as paths) of the complete checkpoints in a directory, sorted by name. A
// checkpoint is complete if it has an index. Errors: NOT_FOUND if the directory does not exist.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(FileSystem& files,
                                                         const std::string& directory);

// Deletes a checkpoint. The index is removed first, so that an interrupted deletion leaves no
// checkpoint that looks complete. Deleting a missing checkpoint is not an error. The caller must
// remove the checkpoint from the state file before the deletion.
absl::Status DeleteCheckpoint(FileSystem& files, const std::string& prefix);

// Returns the name under which a checkpoint called `name` can be saved: `name` itself, or "name-2",
// "name-3", ... if there already is a complete checkpoint with the name, which must not be written
// again. That happens if an earlier save was cut off between index and state file, or if a job
// trains again in its old directory. Nothing is deleted. Errors: those of the file system;
// RESOURCE_EXHAUSTED after 1000 names.
absl::StatusOr<std::string> UnusedCheckpointName(FileSystem& files, const std::string& directory,
                                                 const std::string& name);

// Removes the files of unfinished saves with names from CheckpointNameOfStep: data shards without
// an index, and temporary files. Only the task that alone saves under these names may call this
// function. Files that cannot be removed stay.
void RemoveUnfinishedSaves(FileSystem& files, const std::string& directory);

// The content of a directory's state file `checkpoint` (text form of tensorflow.CheckpointState).
// Paths below the directory are relative to the directory; other paths are kept as they are. The
// last line is a comment with the CRC-32C of the bytes before it, "# crc32c: 1a2b3c4d"; a file
// without this line, as TensorFlow writes it, is read without a check.
struct CheckpointState {
  std::string latest;            // the prefix of the latest checkpoint
  std::vector<std::string> all;  // the prefixes of all checkpoints, oldest first
};
absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem& files,
                                                    const std::string& directory);
// Writes the state file in one step. Errors: INVALID_ARGUMENT if `latest` is empty; the file
// system's errors.
absl::Status WriteCheckpointState(FileSystem& files, const std::string& directory,
                                  const CheckpointState& state);

// Returns the prefix of the checkpoint that `which` names: "latest", a prefix, or a prefix with the
// ".index" that a shell completes. The latest checkpoint is the one that the state file names or,
// without a state file, the checkpoint with the most steps in its name; "" if there is no
// checkpoint. Errors: DATA_LOSS for a damaged state file and NOT_FOUND for a state file whose
// latest checkpoint is missing, both with the file, its content and IntactCheckpointsRemedy() in
// the message; FAILED_PRECONDITION that lists the checkpoints if there is no state file and the
// checkpoints' names do not tell which is the latest; NOT_FOUND if `which` is a directory.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& directory,
                                           const std::string& which);

// Returns advice for a user whose checkpoint cannot be read: the names of the intact checkpoints in
// the directory (at most 16, the one with the most steps last) except `damaged`, and how to choose
// one of them. A checkpoint counts as intact if its index is readable and its data shards have
// their full size; the bytes in the shards are not read.
std::string IntactCheckpointsRemedy(FileSystem& files, const std::string& directory,
                                    absl::string_view damaged = "");

}  // namespace cohort
