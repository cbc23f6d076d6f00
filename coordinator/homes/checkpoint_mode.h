#pragma once

// The values of the job file's key checkpoint.mode.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// The way in which the shards of a checkpoint get into the coordinator's directory
// (shard_transfer.h). With kAuto, a probe decides between the two others.
enum class CheckpointMode { kAuto, kShared, kStream };

// Converts the name "auto", "shared" or "stream" to a mode. Errors: INVALID_ARGUMENT for any other
// name.
absl::StatusOr<CheckpointMode> CheckpointModeFromName(absl::string_view name);

}  // namespace cohort
