#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/cuda/broadcast_walk.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for more axes than a walk has.
absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes);

}  // namespace cohort
