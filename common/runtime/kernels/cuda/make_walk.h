#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/launches/broadcast_walk.h"
#include "common/runtime/kernels/broadcast.h"

namespace cohort {

// Converts merged axes to a walk of a device. Errors: INVALID_ARGUMENT for more than kWalkAxesMax
// axes.
absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes);

}  // namespace cohort
