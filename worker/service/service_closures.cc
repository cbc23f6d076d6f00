// The handlers of the calls RunClosure and EndGangs.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/service/worker_service.h"
#include "worker/step/closure_steps.h"

namespace cohort {

namespace {

// Returns NOT_FOUND for `what`, a program, data set or iterator that this worker lacks. The class
// is TRANSIENT, because the coordinator can create what is missing and send the closure again.
absl::Status Missing(absl::string_view what) {
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat("this worker has no ", what, ": create it here first"),
                   proto::TRANSIENT);
}

// Adds the closure's id and attempt to an error with which the closure is refused.
absl::Status WithClosure(const absl::Status& status, const proto::RunClosureRequest& request) {
  proto::ErrorDetail detail = DetailOf(status);
  detail.set_closure_id(request.closure_id());
  detail.set_attempt(request.attempt());
  return WithDetail(status, detail);
}

// Checks that the workers of a gang can run the closure together: the program must have settings
// for the group's communication, and the batch must be that of a split, so that all workers read
// the same batch. A gang of one worker always passes.
absl::Status CheckGang(const proto::RunClosureRequest& request, const WorkerProgram& program) {
  if (request.gang().members_size() <= 1) return absl::OkStatus();
  if (!program.communication.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "program '", program.name, "' does not say how the ", request.gang().members_size(),
        " workers of its gang communicate: set Program.replicas.communication"));
  }
  if (request.input_case() != proto::RunClosureRequest::kIteratorId) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a gang of several workers shares out one batch, and iterators give each worker another: "
      "name a split");
}

}  // namespace

absl::StatusOr<ClosureInput> WorkerService::FindInput(
    const proto::RunClosureRequest& request) const {
  ClosureInput input;
  if (request.has_split()) {
    input.dataset = resources_.FindDataset(request.split().dataset_id());
    input.position = request.split().position();
    if (input.dataset == nullptr) {
      return Missing(absl::StrCat("data set ", request.split().dataset_id()));
    }
  } else if (request.input_case() == proto::RunClosureRequest::kIteratorId) {
    input.stream = resources_.FindIterator(request.iterator_id());
    if (input.stream == nullptr) {
      return Missing(absl::StrCat("iterator ", request.iterator_id()));
    }
  }
  return input;
}

void WorkerService::RunClosure(ClosureRun::Request request, ClosureRun::Replied reply) {
  // A closure of an earlier coordinator is refused here, before it can take a turn among the gangs.
  const proto::RunClosureRequest& header = request.header;
  if (absl::Status epoch = parts_->task_service->CheckEpoch(header.epoch()); !epoch.ok()) {
    return reply(WithClosure(epoch, header));
  }
  if (header.gang().generation() > 0) {
    // A repeated request of a gang does not run again: Begin() then keeps `reply` and gives it the
    // answer of the first request.
    if (!parts_->gang_answers.Begin(header, std::move(reply))) return;
    // `place` copies only the fields that GangAnswers::End() needs, so that the closure's arguments
    // are not kept.
    proto::RunClosureRequest place;
    place.set_epoch(header.epoch());
    *place.mutable_gang() = header.gang();
    *place.mutable_later_steps() = header.later_steps();
    reply = [parts = parts_, place = std::move(place)](GangAnswers::Answer answer) {
      parts->gang_answers.End(place, std::move(answer));
    };
  }
  const auto refuse = [&](const absl::Status& status) {
    // The other members of the gang and all later gangs must learn of the end of a gang that is
    // refused here; otherwise they would wait for it.
    const absl::Status described = WithClosure(Refusal(status), header);
    if (header.has_gang()) {
      parts_->groups->End(header.gang(), described);
      parts_->gangs.End(header.gang(), /*ended_well=*/false);
    }
    reply(described);
  };
  std::shared_ptr<const WorkerProgram> program = programs_.Find(header.program_id());
  if (program == nullptr) return refuse(Missing(absl::StrCat("program ", header.program_id())));
  absl::StatusOr<ClosureInput> input = FindInput(header);
  if (!input.ok()) return refuse(input.status());
  if (absl::Status fits = CheckGang(header, *program); !fits.ok()) return refuse(fits);
  if (absl::Status fits = CheckSteps(header); !fits.ok()) return refuse(fits);
  // A closure of several steps runs as a sequence of runs of one step each.
  if (header.later_steps_size() > 0) {
    return std::make_shared<ClosureSteps>(parts_, std::move(program), std::move(request),
                                          std::move(reply))
        ->Start(*std::move(input));
  }
  std::make_shared<ClosureRun>(parts_, std::move(program), std::move(request), std::move(reply))
      ->Start(*std::move(input));
}

void WorkerService::EndGangs(const Envelope<proto::EndGangsRequest>& request,
                             TypedReply<proto::EndGangsResponse> reply) {
  const proto::EndGangsRequest& header = request.header;
  if (absl::Status epoch = parts_->task_service->CheckEpoch(header.epoch()); !epoch.ok()) {
    return reply(std::move(epoch));
  }
  absl::Status why(static_cast<absl::StatusCode>(header.code()), header.message());
  // `why` ends the calls of the group, so it must be an error.
  if (why.ok()) why = absl::AbortedError("the gang has failed on another worker");
  // The group learns the cause before the line of gangs learns of the end. In the line, later gangs
  // end because of this gang, and none of them may be reported as the cause.
  parts_->groups->End(header.gang(), WithDetail(why, header.detail()));
  parts_->gangs.End(header.gang(), /*ended_well=*/false);
  reply(Envelope<proto::EndGangsResponse>());
}

}  // namespace cohort
