#include "coordinator/schedule/closure_call.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/schedule/gang_channel.h"
#include "coordinator/schedule/outcome.h"

namespace cohort {

namespace {

// Writes the closure's steps into the request, from step number `first` on.
void SetSteps(const Closure& closure, size_t first, proto::RunClosureRequest& request) {
  // Closure id, step number and round number of step i are those of the closure's first step plus
  // i.
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
  // The request lists the remaining steps in the order in which the worker runs them, all in one
  // call.
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
  // If no handle to the closure's result exists, nobody can read the fetched tensors, so the worker
  // need not send them.
  header.set_discard_fetches(closure.result.expired());
  SetSteps(closure, run.first_step, header);
  // A closure is queued only after its arguments are resolved (scheduler.cc), so each argument is a
  // tensor here.
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
  // An answer that cannot be read was damaged on its way from the worker, so another attempt may
  // succeed.
  if (!fetched.ok()) {
    response = WithOrigin(MalformedMessage(fetched.status().message()), run.task());
    return part;
  }
  part.fetched = *std::move(fetched);
  // If the answer has no StepFailure, all steps of the run are done.
  if (!response->header.has_failure()) return part;
  const proto::StepFailure failure = response->header.failure();
  // If a step has failed, the worker cannot have done all steps of the run.
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

bool NoteLoss(const WorkerRun& run, const absl::Status& cause) {
  AttemptRecord& record = run.closure->record;
  // If the worker process ended during a set-up call, when it only received programs and data, the
  // closure did not cause that.
  if (!run.called) return false;
  std::set<int> unanswered;
  // For a gang, the gang's channel knows which members did not answer. For a single worker, an
  // error without ErrorDetail comes from the transport, so the worker did not answer.
  if (run.gang_channel != nullptr) {
    unanswered = run.gang_channel->Unanswered();
  } else if (ClassOf(cause) == proto::ERROR_CLASS_UNKNOWN) {
    unanswered = {run.worker()};
  }
  for (const int worker : unanswered) {
    record.AddUnanswered(run.attempt, run.Member(worker)->task, cause);
  }
  return !unanswered.empty();
}

bool NoteSilence(const WorkerRun& run, const SetUpEnd& end) {
  // UNAVAILABLE counts as silence like DEADLINE_EXCEEDED: on a network path that loses large
  // packets, the connection may break before the call runs out of time.
  const bool silent = (absl::IsDeadlineExceeded(end.status) || absl::IsUnavailable(end.status)) &&
                      ClassifyOutcome(end.status) == Outcome::kWorkerLost;
  if (!silent) return false;
  AttemptRecord& record = run.closure->record;
  const absl::Duration silent_for = record.AddSilence(end.start, end.end);
  record.SetSilenceError(
      UnansweredError(end.call, silent_for, AttributedCall(end.status, run.task())));
  return true;
}

absl::Status GiveUp(const WorkerRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule) {
  Closure& closure = *run.closure;
  AttemptRecord& record = closure.record;
  if (closure.begun && !closure.replayable) return LostForGood(closure, status.message());
  if (const absl::Status silence = record.Silence(rule.silence_max); !silence.ok()) {
    return Annotate(silence, absl::StrCat("closure ", closure.id.value));
  }
  if (IsMalformed(status)) {
    const uint32_t malformed = record.AddMalformed();
    // Unreadable messages have a limit of their own and are not faults: the closure may not have
    // run at all.
    if (malformed < AttemptRecord::kMalformedMax) return absl::OkStatus();
    return Annotate(status, absl::StrCat("closure ", closure.id.value, ": ", malformed,
                                         " messages about it could not be read, the last time"));
  }
  // A fault is counted only if a worker that ran the closure has answered. If the members of a gang
  // answer that they do not reach one another (`apart`), a fault is counted as well. If a gang was
  // refused only because an older gang failed (`refused`), no fault is counted.
  // A member that ends in a set-up call, before anybody runs the closure, is no answer either.
  const bool apart = outcome == Outcome::kWorkerLost && run.gang_channel != nullptr && run.called &&
                     ClassOf(status) == proto::WORKER_LOST && !record.HasUnanswered(run.attempt);
  const bool refused = outcome == Outcome::kTransient && closure.gang && rule.behind;
  const bool ran = outcome == Outcome::kTransient || outcome == Outcome::kForgotten || apart;
  if (!ran || refused) return absl::OkStatus();
  const uint32_t faults = record.AddFault();
  if (faults < rule.attempts_max) return absl::OkStatus();
  return Annotate(status, absl::StrCat("closure ", closure.id.value, " failed ", faults,
                                       " times, the last time"));
}

}  // namespace cohort
