#pragma once

// The content of the RunClosure call and of its answer. The call of a closure with several steps
// carries the steps that are not done yet. If one of the steps fails, the answer holds the tensors
// that the steps before the failed one fetched.
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

// Makes the RunClosure request of a run. The caller sets the request's gang, session and time
// limit.
Envelope<proto::RunClosureRequest> MakeRunRequest(const WorkerRun& run, uint64_t epoch,
                                                  ClosureId watermark);

// The steps that ended well in a run whose last step failed.
struct PartOfSteps {
  size_t steps = 0;  // number of steps done before the failed step; 0 if no step failed
  FetchedTensors fetched;
};
// Reads the answer of a run. If a step failed, replaces `response` by the step's error, and returns
// the steps before the failed one. `response` also becomes an error if the answer is wrong:
// OUT_OF_RANGE if it claims more steps than the run has; a malformed message
// (common/wire/error_detail.h) if its tensors cannot be read.
PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response);

// Returns the tensors that all steps of the closure fetched: `before`, which the steps of earlier
// runs fetched, then `last`.
FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last);

// Records that the run was lost; `cause` is the error of its RunClosure call. Returns whether
// worker processes may have ended because of the run.
bool NoteLoss(const WorkerRun& run, const absl::Status& cause);

// The end of a set-up call, which gives a worker a resource that a closure needs.
struct SetUpEnd {
  UnansweredCall call;
  absl::Time start;
  absl::Time end;
  absl::Status status;
};
// If the set-up call ended because the worker did not answer in time, records the silence and
// returns true. If the call ended in another way, changes nothing and returns false.
bool NoteSilence(const WorkerRun& run, const SetUpEnd& end);

struct GiveUpRule {
  uint32_t attempts_max = 0;   // number of faults at which the closure fails
  absl::Duration silence_max;  // how long set-up calls in a row may be silent
  bool behind = false;         // whether an older closure has not ended
};
// Records how a run ended whose closure would run again. Returns an error if the closure must be
// given up instead, for example after too many faults; otherwise returns OK.
absl::Status GiveUp(const WorkerRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule);

}  // namespace cohort
