#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/launches/broadcast_walk.h"
#include "common/runtime/kernels/broadcast.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for more axes than a walk has.
absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes);

}  // namespace cohort
