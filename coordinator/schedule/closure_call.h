#pragma once

// The content of the call for a closure, each way. For a closure of several steps it carries those
// that are not done, and if one of them fails the answer has what those before it fetched.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/worker_slots.h"
#include "proto/worker.pb.h"

namespace cohort {

using RunAnswer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

// Makes the request without the place and the time limit of the run.
Envelope<proto::RunClosureRequest> MakeRunRequest(const WorkerRun& run, uint64_t epoch,
                                                  ClosureId watermark);

// The content of an answer.
struct PartOfSteps {
  size_t steps = 0;  // steps done before one that has failed; 0 for any other answer
  FetchedTensors fetched;
};
// Reads the answer, and leaves the error of a failed step in its place. An answer with more steps
// than the run has is OUT_OF_RANGE; one whose tensors cannot be read is malformed
// (common/wire/malformed.h).
PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response);

// Returns what all of its steps fetched: `before` by the steps that were done before, then `last`.
FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last);

}  // namespace cohort
