#pragma once

// The meaning of a run's end for its closure (attempts.h).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/worker_slots.h"

namespace cohort {

// Records that the run was lost, with the error of its call. Returns true if worker processes may
// have ended because of the run.
bool NoteLoss(const WorkerRun& run, const absl::Status& cause);

// The end of a set-up call, which gives a worker what a closure needs.
struct SetUpEnd {
  UnansweredCall call;
  absl::Duration lasted;  // how long the call went without an answer
  absl::Status status;
};
// Records a set-up call that a worker did not answer in time, and returns true. Returns false if
// the call ended in another way.
bool NoteSilence(const WorkerRun& run, const SetUpEnd& end);

struct GiveUpRule {
  uint32_t attempts_max = 0;   // the number of faults at which the closure fails
  absl::Duration silence_max;  // how long set-up calls in a row may be silent
  bool behind = false;         // true if an older closure has not ended
};
// Records the end of a run whose closure is to run again. Returns the error if the closure has to
// be given up, else OK.
absl::Status GiveUp(const WorkerRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule);

}  // namespace cohort
