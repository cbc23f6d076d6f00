#pragma once

// What the end of one run says of its closure (attempts.h).

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/worker_lane.h"

namespace cohort {

// Records a run that was lost, as its call ended. Returns true if worker processes may have ended
// with it.
bool NoteLoss(const LaneRun& run, const absl::Status& cause);

struct GiveUpRule {
  uint32_t attempts_max = 0;  // so many faults, and the closure fails
  bool behind = false;        // an older closure has not ended
};
// Records the end of a run whose closure is to run again. Returns the error of one that is not to;
// else OK.
absl::Status GiveUp(const LaneRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule);

}  // namespace cohort
