#pragma once

// What the call for a closure carries, each way. Of a closure of several steps it carries those
// that are not done, and where one of them fails the answer has what those before it fetched.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/worker_lane.h"
#include "proto/worker.pb.h"

namespace cohort {

using RunAnswer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

// All but what says where and how long it runs.
Envelope<proto::RunClosureRequest> MakeRunRequest(const LaneRun& run, uint64_t epoch,
                                                  ClosureId watermark);

// Steps that were done before one that has failed.
struct PartOfSteps {
  size_t steps = 0;
  FetchedTensors fetched;
};
// Takes them from the answer and leaves the error; of any other answer there are none. Errors:
// OUT_OF_RANGE for more steps than the run has; INVALID_ARGUMENT for malformed tensors.
absl::StatusOr<PartOfSteps> TakePart(const LaneRun& run, RunAnswer& response);

// What all of its steps fetched: behind `before`, which were done before. Errors: the answer's;
// INVALID_ARGUMENT for malformed tensors.
absl::StatusOr<FetchedTensors> ReadFetches(FetchedTensors before, const RunAnswer& response);

}  // namespace cohort
