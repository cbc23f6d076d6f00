#pragma once

// The meaning of a run's end for its closure (attempts.h).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/worker_slots.h"

namespace cohort {

// Records a run that was lost, as its call ended. Returns true if worker processes may have ended
// with it.
bool NoteLoss(const WorkerRun& run, const absl::Status& cause);

// The end of a call that gives workers what a closure needs.
struct SetUpEnd {
  UnansweredCall call;
  absl::Duration lasted;  // without an answer
  absl::Status status;
};
// Records a call that a worker has not answered in time, and returns true; false: of another end.
bool NoteSilence(const WorkerRun& run, const SetUpEnd& end);

struct GiveUpRule {
  uint32_t attempts_max = 0;   // so many faults, and the closure fails
  absl::Duration silence_max;  // for set-up calls in a row
  bool behind = false;         // an older closure has not ended
};
// Records the end of a run whose closure is to run again. Returns the error of a closure that is
// not to; else OK.
absl::Status GiveUp(const WorkerRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule);

}  // namespace cohort
