#pragma once

// What the call for a closure carries, each way. Of a closure of several steps it carries those
// that are not done, and where one of them fails the answer has what those before it fetched.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/worker_slots.h"
#include "proto/worker.pb.h"

namespace cohort {

using RunAnswer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

// All but what says where and how long it runs.
Envelope<proto::RunClosureRequest> MakeRunRequest(const WorkerRun& run, uint64_t epoch,
                                                  ClosureId watermark);

// What an answer brings.
struct PartOfSteps {
  size_t steps = 0;  // that were done before one that has failed; of any other answer none
  FetchedTensors fetched;
};
// Reads the answer, and leaves the error of a step that has failed in its place. That of more steps
// than the run has is OUT_OF_RANGE; an answer whose tensors cannot be read is malformed
// (common/wire/malformed.h).
PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response);

// Returns what all of its steps fetched: `before` by the steps that were done before, then `last`.
FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last);

}  // namespace cohort
