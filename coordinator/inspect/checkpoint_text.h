#pragma once

// Checkpoints and other files of trained weights as tables.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Lists the checkpoints in a directory, with the latest one marked, or the files of one checkpoint,
// named by its prefix. A checkpoint that cannot be opened is listed with the reason. Errors:
// NOT_FOUND if there is neither such a directory nor such a checkpoint; DATA_LOSS for a damaged
// state file.
absl::StatusOr<std::string> ListCheckpointText(FileSystem& files, const std::string& path);

// Lists the values of a file that OpenWeights reads: names, types, shapes and bytes. Errors: those
// of OpenWeights.
absl::StatusOr<std::string> ShowCheckpointText(FileSystem& files, const std::string& path);

}  // namespace cohort
