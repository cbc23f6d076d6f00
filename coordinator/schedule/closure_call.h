#pragma once

// The content of the RunClosure call and of its answer. The call of a closure with several steps
// carries the steps that are not done. If one of these steps fails, the answer holds what the steps
// before the failed one fetched.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/worker_slots.h"
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
// Reads the answer, and replaces `response` by the step's error if a step failed. Errors left in
// `response`: OUT_OF_RANGE if the answer claims more steps than the run has; a malformed message
// (common/wire/malformed.h) if its tensors cannot be read.
PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response);

// Returns what all steps of the closure fetched: `before` from the steps of earlier runs, then
// `last`.
FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last);

}  // namespace cohort
