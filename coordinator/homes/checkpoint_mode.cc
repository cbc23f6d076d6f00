#include "coordinator/homes/checkpoint_mode.h"

#include "absl/strings/str_cat.h"

namespace cohort {

absl::StatusOr<CheckpointMode> CheckpointModeFromName(absl::string_view name) {
  if (name == "auto") return CheckpointMode::kAuto;
  if (name == "shared") return CheckpointMode::kShared;
  if (name == "stream") return CheckpointMode::kStream;
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint mode '", name, "'; there are auto, shared and stream"));
}

}  // namespace cohort
