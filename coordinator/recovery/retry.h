#pragma once

// Rules for trying saves and recoveries again: after which failures, and how long after.

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cohort {

inline constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// Returns true if another try may end better: the server was away, or was started again.
bool IsLoss(const absl::Status& status);

}  // namespace cohort
