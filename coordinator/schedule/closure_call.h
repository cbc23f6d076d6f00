#pragma once

// The content of the RunClosure call and of its answer. The call of a closure with several steps
// carries the steps that are not done. If one of these steps fails, the answer holds what the steps
// before the failed one fetched.
//
// This file also decides what the end of a run means for its closure: whether a worker process may
// have ended because of the closure, and whether the closure is given up (attempts.h).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/schedule/outcome.h"
#include "coordinator/schedule/worker_run.h"
#include "proto/worker.pb.h"

namespace cohort {

using RunAnswer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

// Makes the RunClosure request, except for the gang, the session and the time limit of the run.
Envelope<proto::RunClosureRequest> MakeRunRequest(const WorkerRun& run, uint64_t epoch,
                                                  ClosureId watermark);

// The successful steps in an answer whose last step failed.
struct PartOfSteps {
  size_t steps = 0;  // steps done before the step that failed; 0 for any other answer
  FetchedTensors fetched;
};
// Reads the answer, and replaces `response` by the step's error if a step failed. If the answer is
// wrong, `response` becomes an error as well: OUT_OF_RANGE if the answer claims more steps than the
// run has; a malformed message (common/wire/error_detail.h) if its tensors cannot be read.
PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response);

// Returns what all steps of the closure fetched: `before` from the steps of earlier runs, then
// `last`.
FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last);

// Records that the run was lost, with the error of its call. Returns true if worker processes may
// have ended because of the run.
bool NoteLoss(const WorkerRun& run, const absl::Status& cause);

// The end of a set-up call, which gives a worker a resource that a closure needs.
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
