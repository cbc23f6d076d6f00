#include "coordinator/schedule/closure_call.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/malformed.h"
#include "coordinator/schedule/outcome.h"

namespace cohort {

namespace {

// Fills in the steps of the closure from step `first` on.
void SetSteps(const Closure& closure, size_t first, proto::RunClosureRequest& request) {
  // Step i of a closure has the ids, numbers and rounds of the closure's first step plus i.
  request.set_closure_id(closure.id.value + first);
  request.set_step((closure.step == 0 ? closure.id.value : closure.step) + first);
  request.set_round(closure.round.number == 0 ? 0 : closure.round.number + first);
  request.set_aggregate(closure.round.aggregate);
  request.set_learning_rate(first == 0 ? closure.learning_rate
                                       : closure.later_steps[first - 1].learning_rate);
  if (const auto* split = std::get_if<SplitInput>(&closure.input)) {
    request.mutable_split()->set_dataset_id(split->dataset->id);
    *request.mutable_split()->mutable_position() =
        first == 0 ? split->position : closure.later_steps[first - 1].position;
  } else if (const auto* iterator =
                 std::get_if<std::shared_ptr<const RegisteredIterator>>(&closure.input)) {
    request.set_iterator_id((*iterator)->id);
  }
  // A worker reads and runs the remaining steps in this order, without another call.
  for (size_t step = first + 1; step < closure.num_steps(); ++step) {
    proto::LaterStep& later = *request.add_later_steps();
    *later.mutable_position() = closure.later_steps[step - 1].position;
    later.set_learning_rate(closure.later_steps[step - 1].learning_rate);
  }
}

}  // namespace

Envelope<proto::RunClosureRequest> MakeRunRequest(const WorkerRun& run, uint64_t epoch,
                                                  ClosureId watermark) {
  const Closure& closure = *run.closure;
  Envelope<proto::RunClosureRequest> request;
  proto::RunClosureRequest& header = request.header;
  header.set_epoch(epoch);
  header.set_attempt(closure.attempt);
  header.set_program_id(closure.program->id);
  header.set_watermark(watermark.value);
  header.set_time_ms(static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMillis(closure.time), 0)));
  // Nobody can see the result any more, so its tensors need not travel.
  header.set_discard_fetches(closure.result.expired());
  SetSteps(closure, run.first_step, header);
  // A closure is queued only once its arguments are resolved, so each argument is a tensor here.
  for (const Argument& argument : closure.arguments) {
    const Tensor& tensor = std::get<Tensor>(argument);
    *header.add_arguments() = MetaOf(tensor);
    request.payload.push_back(SliceOf(tensor));
  }
  return request;
}

PartOfSteps TakePart(const WorkerRun& run, RunAnswer& response) {
  PartOfSteps part;
  if (!response.ok()) return part;
  absl::StatusOr<FetchedTensors> fetched =
      ReadTensors(response->header.fetches(), response->payload);
  // The worker answered, but the answer was damaged on the way; another attempt may end better.
  if (!fetched.ok()) {
    response = WithOrigin(MalformedMessage(fetched.status().message()), run.task());
    return part;
  }
  part.fetched = *std::move(fetched);
  // An answer without a failure is an answer for all steps.
  if (!response->header.has_failure()) return part;
  const proto::StepFailure failure = response->header.failure();
  // A failed run has at least one step that is not done.
  if (failure.steps_done() >= run.num_steps()) {
    response = absl::OutOfRangeError(
        absl::StrCat(failure.steps_done(), " steps are said to be done of ", run.num_steps()));
    return part;
  }
  part.steps = failure.steps_done();
  response = ErrorOf(failure);
  return part;
}

FetchedTensors JoinFetches(FetchedTensors before, FetchedTensors last) {
  if (before.empty()) return last;
  for (Tensor& tensor : last) before.push_back(std::move(tensor));
  return before;
}

}  // namespace cohort
