#pragma once

// The rules for repeating failed saves and recoveries: after which failures, and after which delay.

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cohort {

inline constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// Returns true if another attempt may succeed, because a server was away or was restarted.
bool IsLoss(const absl::Status& status);

}  // namespace cohort
