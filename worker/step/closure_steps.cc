#include "worker/step/closure_steps.h"

#include <algorithm>
#include <utility>

#include "common/wire/error_detail.h"
#include "common/wire/step_times.h"

namespace cohort {

namespace {

bool IsOfGang(const proto::RunClosureRequest& request) { return request.gang().generation() > 0; }

}  // namespace

absl::Status CheckSteps(const proto::RunClosureRequest& request) {
  if (request.later_steps().empty()) return absl::OkStatus();
  if (!request.has_split()) {
    return absl::InvalidArgumentError(
        "a closure of several steps says of each which batch it reads: name a split");
  }
  // Outside a gang, a step would have to wait until other closures have pushed in the round before
  // its own, which a run cannot do.
  if (request.round() == 0 || IsOfGang(request)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a closure of several steps is of several rounds, and each has to wait for what others push "
      "in the round before: schedule its steps one by one");
}

ClosureSteps::ClosureSteps(std::shared_ptr<ClosureParts> parts,
                           std::shared_ptr<const WorkerProgram> program,
                           ClosureRun::Request request, ClosureRun::Replied reply)
    : parts_(std::move(parts)),
      program_(std::move(program)),
      request_(std::move(request)),
      num_steps_(1 + static_cast<size_t>(request_.header.later_steps_size())),
      begun_ahead_(IsOfGang(request_.header) ? 1 : 0),
      deadline_(DeadlineOf(request_.header, parts_->world.clock.Now())),
      answers_(num_steps_),
      reply_(std::move(reply)) {}

void ClosureSteps::Start(ClosureInput input) {
  input_ = std::move(input);
  // A gang begins two steps here, so that the second step reads its batch while the first one
  // computes.
  const size_t first = std::min(num_steps_, 1 + begun_ahead_);
  {
    MutexLock lock(mutex_);
    // `begun_` is set before the runs start, because a run may end inside Begin() and use `begun_`.
    begun_ = first;
  }
  for (size_t step = 0; step < first; ++step) Begin(step);
}

ClosureRun::Request ClosureSteps::RequestOf(size_t step) const {
  ClosureRun::Request request = request_;
  proto::RunClosureRequest& header = request.header;
  header.clear_later_steps();
  // All steps share the closure's deadline: the request of a step gets the time that is left until
  // then.
  if (deadline_ != absl::InfiniteFuture()) {
    const absl::Duration left = deadline_ - parts_->world.clock.Now();
    header.set_timeout_ms(std::max<int64_t>(absl::ToInt64Milliseconds(left), 1));
  }
  if (step == 0) return request;
  const proto::LaterStep& later = request_.header.later_steps(static_cast<int>(step) - 1);
  // The closure id, the step number, the round and the turn of a later step are counted on from
  // those of the first step.
  header.set_closure_id(header.closure_id() + step);
  header.set_step(header.step() + step);
  header.set_learning_rate(later.learning_rate());
  *header.mutable_split()->mutable_position() = later.position();
  if (!IsOfGang(header)) return request;
  header.set_round(header.round() + step);
  header.mutable_gang()->set_sequence(header.gang().sequence() + step);
  return request;
}

void ClosureSteps::Begin(size_t step) {
  ClosureRun::Request request = RequestOf(step);
  ClosureInput input = input_;
  input.position = request.header.split().position();
  std::make_shared<ClosureRun>(
      parts_, program_, std::move(request),
      [self = shared_from_this(), step](Answer answer) { self->Ended(step, std::move(answer)); })
      ->Start(std::move(input));
}

// Takes the answer of one step, and begins the next step or sends the reply. If a step of a gang
// has failed, the step that has begun after it fails as well, and may answer first.
void ClosureSteps::Ended(size_t step, Answer answer) {
  size_t next = num_steps_;
  ClosureRun::Replied reply;
  std::vector<std::optional<Answer>> answers;
  {
    MutexLock lock(mutex_);
    failed_ = failed_ || !answer.ok();
    answers_[step] = std::move(answer);
    ++ended_;
    if (!failed_ && begun_ < num_steps_) next = begun_++;
    // No step begins after a failure, so the reply is sent when all steps that have begun have
    // ended.
    if (ended_ == begun_) {
      reply = std::move(reply_);
      answers = std::move(answers_);
    }
  }
  // The next step begins outside the lock, because its run may end inside Begin() and call Ended().
  if (next < num_steps_) return Begin(next);
  if (reply) reply(JoinAnswers(std::move(answers)));
}

ClosureSteps::Answer ClosureSteps::JoinAnswers(std::vector<std::optional<Answer>> answers) {
  Response together;
  for (size_t step = 0; step < answers.size(); ++step) {
    Answer& answer = *answers[step];
    if (!answer.ok()) {
      // If the first step has failed, the reply is its error alone.
      if (step == 0) return answer.status();
      proto::StepFailure& failure = *together.header.mutable_failure();
      failure.set_steps_done(static_cast<uint32_t>(step));
      failure.set_code(static_cast<int32_t>(answer.status().code()));
      failure.set_message(std::string(answer.status().message()));
      *failure.mutable_detail() = DetailOf(answer.status());
      return together;
    }
    proto::RunClosureResponse& header = answer->header;
    for (proto::TensorMeta& fetched : *header.mutable_fetches()) {
      together.header.add_fetches()->Swap(&fetched);
    }
    for (ByteSlice& bytes : answer->payload) together.payload.push_back(std::move(bytes));
    AddTimes(header.times(), *together.header.mutable_times());
    // The joined answer's `round_applied` is that of the last step.
    together.header.set_round_applied(header.round_applied());
  }
  return together;
}

}  // namespace cohort
