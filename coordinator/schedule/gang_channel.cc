#include "coordinator/schedule/gang_channel.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/outcome.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

constexpr char kRunClosure[] = "/cohort.proto.WorkerService/RunClosure";
constexpr char kEndGangs[] = "/cohort.proto.WorkerService/EndGangs";
// Time limit of an EndGangs call, which tells a member that its gang has ended. If the
// member does not answer in time, it is lost, which the caller of EndGangs or the member's
// connection finds out.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

// Returns how much an error of a gang's member says; a lower rank says more. The gang's call ends
// with the error of the lowest rank among its members' errors.
int RankOf(const absl::Status& status) {
  switch (ClassifyOutcome(status)) {
    case Outcome::kFailed:
      return 0;
    case Outcome::kExpired:
      return 1;
    case Outcome::kWorkerLost:
      return 2;
    case Outcome::kPsLost:
      return 3;
    case Outcome::kForgotten:
      return 4;
    case Outcome::kTransient:
      return 5;
    case Outcome::kDone:
      return 6;
  }
  return 6;
}

// Returns whether `error` shows that the member has not answered: it then comes from the transport,
// or from the code that watches whether the member is alive.
bool IsUnanswered(const absl::Status& error) {
  return ClassOf(error) == proto::ERROR_CLASS_UNKNOWN &&
         ClassifyOutcome(error) == Outcome::kWorkerLost;
}

// Returns whether the member's error makes it out of step: the error leaves open which steps the
// member has done, or says that the member has lost its variables, because its process was
// restarted or knows another epoch. If another member caused the error, this member has not made
// the step, and nothing is open.
bool IsOpen(const absl::Status& error, const GangMember& member) {
  const proto::ErrorDetail detail = DetailOf(error);
  const proto::ErrorClass error_class = detail.error_class();
  if (error_class == proto::PS_LOST || error_class == proto::STALE) {
    return !detail.has_origin() || detail.origin().index() == member.worker;
  }
  return IsMalformed(error) || IsUnanswered(error);
}

// Returns the error that the other members of a gang are told when `member` has failed. If the
// error names no task as its origin, the member's name is added.
absl::Status FailureOf(const absl::Status& error, const proto::TaskRef& member, bool given_up) {
  const bool named = DetailOf(error).has_origin();
  const absl::Status failure =
      AttributedCall(named ? error : Annotate(error, TaskName(member)), member);
  proto::ErrorDetail detail = DetailOf(failure);
  detail.set_given_up(given_up);
  return WithDetail(failure, detail);
}

// The source of what is recorded as a member's answer: the member's own answer, or a report that
// the member will not answer.
enum class Source {
  kItself,
  kLost,     // the member was reported as lost, or is silent; it may be alive
  kGivenUp,  // the member was given up by the cluster (ErrorDetail.given_up)
};

// The answer of one member of a gang to a call, or an error that stands for the answer.
struct Answer {
  // Makes the answer to a set-up call, which the member has carried out completely or not at all.
  explicit Answer(absl::StatusOr<Message> its_message)
      : message(std::move(its_message)),
        error(message.status()),
        steps(message.ok() ? kAllSteps : 0) {}

  // Makes the answer to a RunClosure call, which may have failed after some of the closure's steps.
  static Answer Of(absl::StatusOr<Message> message) {
    Answer answer(std::move(message));
    proto::RunClosureResponse response;
    if (!answer.error.ok()) return answer;
    if (!response.ParseFromString(answer.message->header) || !response.has_failure()) return answer;
    const proto::StepFailure& failure = response.failure();
    answer.error = ErrorOf(failure);
    answer.steps = failure.steps_done();
    return answer;
  }

  // Returns the member's message, with the error `why` in place of the error that the member
  // reported.
  Message With(const absl::Status& why) && {
    proto::RunClosureResponse response;
    response.ParseFromString(message->header);
    response.mutable_failure()->set_code(static_cast<int32_t>(why.code()));
    response.mutable_failure()->set_message(std::string(why.message()));
    *response.mutable_failure()->mutable_detail() = DetailOf(why);
    message->header = response.SerializeAsString();
    return *std::move(message);
  }

  static constexpr size_t kAllSteps = std::numeric_limits<size_t>::max();
  bool reported_lost = false;  // whether the scheduler reported the member as lost
  absl::StatusOr<Message> message;
  // The error of the step that follows the `steps` that are done. OK if all steps are done.
  absl::Status error;
  size_t steps = 0;
};

}  // namespace

// One call to all members of a gang. Shared with the calls to the single members. Thread-safe.
class GangChannel::GangCall : public std::enable_shared_from_this<GangCall> {
 public:
  GangCall(std::vector<GangMember> members, std::shared_ptr<Fate> fate, OutOfStep out_of_step,
           absl::string_view method, Message request, Reply done)
      : members_(std::move(members)),
        fate_(std::move(fate)),
        out_of_step_(std::move(out_of_step)),
        method_(method),
        request_(std::move(request)),
        done_(std::move(done)),
        answers_(members_.size()) {
    for (size_t i = 0; i < members_.size(); ++i) awaited_.insert(i);
  }

  // Starts the call on each member. The first members may answer before the last call is started,
  // so `answers_` has a place for every member from the beginning.
  void Start(absl::Duration timeout) {
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i].channel->Start(method_, request_, timeout,
                                 [self = shared_from_this(), i](absl::StatusOr<Message> answer) {
                                   self->Answered(i, std::move(answer));
                                 });
    }
  }

  void Lose(int worker, const absl::Status& cause) {
    for (size_t i = 0; i < members_.size(); ++i) {
      const Source source = DetailOf(cause).given_up() ? Source::kGivenUp : Source::kLost;
      if (members_[i].worker == worker) Lost(i, cause.message(), source, /*reported_lost=*/true);
    }
  }

 private:
  void Answered(size_t member, absl::StatusOr<Message> message) {
    Answer answer =
        method_ == kRunClosure ? Answer::Of(std::move(message)) : Answer{std::move(message)};
    Take(member, std::move(answer), Source::kItself);
  }

  // Records that a member is lost. If the member has answered before, the loss replaces its answer.
  void Lost(size_t member, absl::string_view cause, Source source, bool reported_lost = false) {
    Answer answer(absl::UnavailableError(cause));
    answer.reported_lost = reported_lost;
    Take(member, std::move(answer), source);
  }

  // Records a member's answer or its loss. An empty `answer` means that the member was asked
  // whether it is still there, and is: its earlier answer counts.
  void Take(size_t member, std::optional<Answer> answer, Source source) {
    const absl::Status status = answer.has_value() ? answer->error : absl::OkStatus();
    std::set<size_t> to_tell;
    std::map<size_t, absl::Status> doubted;
    bool last = false;
    {
      MutexLock lock(mutex_);
      const bool awaited = awaited_.erase(member) > 0;
      // If a member is lost after it has answered RunClosure, the loss still counts, as long as the
      // call has not ended.
      const bool counts = awaited || (source != Source::kItself && method_ == kRunClosure);
      if (over_ || !counts) return;  // a member that is known to be lost has answered late
      // After the first failure, the members that have not answered are told to end the gang. Later
      // failures need not be told.
      if (!status.ok() && !std::exchange(failed_, true)) to_tell = awaited_;
      if (answer.has_value()) answers_[member] = std::move(answer);
      if (awaited_.empty()) doubted = TakeDoubtedLocked();
      last = over_ = awaited_.empty();
    }
    // EndGangs is called outside the lock, because a call may end at once and call Take() again.
    if (method_ == kRunClosure) {
      const absl::Status failure =
          FailureOf(status, members_[member].task, source == Source::kGivenUp);
      for (const size_t i : to_tell) Tell(i, failure);
    }
    for (const auto& [i, why] : doubted) Ask(i, why);
    if (last) Finish();
  }

  // Returns the members that must be asked whether they are still there. Such a member has
  // answered, but another member, which has done fewer steps, reports it as lost. If the process
  // that answered is gone and its answer counted, all other members would be out of step with it.
  std::map<size_t, absl::Status> TakeDoubtedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::map<size_t, absl::Status> doubted;
    // In each call of the gang, members are asked only once. What they answer then is taken as
    // true.
    if (method_ != kRunClosure || std::exchange(asked_, true)) return doubted;
    for (const std::optional<Answer>& other : answers_) {
      const proto::ErrorDetail detail = DetailOf(other->error);
      if (detail.error_class() != proto::WORKER_LOST || !detail.has_origin()) continue;
      for (size_t i = 0; i < members_.size(); ++i) {
        if (members_[i].task.index() != detail.origin().index()) continue;
        if (answers_[i]->steps <= other->steps || IsOpen(answers_[i]->error, members_[i])) continue;
        doubted.emplace(i, other->error);
        // The gang's call does not end until the doubted member has answered again, or is lost.
        awaited_.insert(i);
      }
    }
    return doubted;
  }

  // Asks a member with EndGangs whether it is still there, and records the answer. `why` is the
  // error that reports the member as lost.
  void Ask(size_t member, const absl::Status& why) {
    Tell(member, why, [self = shared_from_this(), member](const absl::Status& status) {
      if (!status.ok()) return self->Lost(member, status.message(), Source::kLost);
      self->Take(member, std::nullopt, Source::kItself);
    });
  }

  // Tells a member to end the gang because of `why`. `heard` gets the status of the EndGangs call.
  void Tell(size_t member, const absl::Status& why,
            absl::AnyInvocable<void(absl::Status)> heard = nullptr) {
    // The gang and the epoch in EndGangs are those of the RunClosure request, which is the same for
    // all members.
    proto::RunClosureRequest header;
    header.ParseFromString(request_.header);
    Envelope<proto::EndGangsRequest> request;
    request.header.set_epoch(header.epoch());
    *request.header.mutable_gang() = header.gang();
    request.header.set_code(static_cast<int32_t>(why.code()));
    request.header.set_message(std::string(why.message()));
    *request.header.mutable_detail() = DetailOf(why);
    StartCall<proto::EndGangsResponse>(
        *members_[member].channel, kEndGangs, std::move(request), kEndTimeout,
        [heard = std::move(heard)](
            const absl::StatusOr<Envelope<proto::EndGangsResponse>>& answer) mutable {
          if (heard != nullptr) heard(answer.status());
        });
  }

  // Ends the call: reports members that are out of step, and runs the caller's callback. Called
  // once every member has answered or is lost.
  void Finish() {
    std::vector<Answer> answers;
    {
      // Once `over_` is set, no thread changes `answers_` any more.
      MutexLock lock(mutex_);
      for (auto& answer : answers_) answers.push_back(*std::move(answer));
    }
    // The answer with the most steps among the members that are still there.
    Answer* first = nullptr;
    absl::Status error;
    for (size_t i = 0; i < answers.size(); ++i) {
      const absl::Status attributed = AttributedCall(answers[i].error, members_[i].task);
      if (RankOf(attributed) < RankOf(error)) error = attributed;
      if (answers[i].steps == 0 || IsOpen(answers[i].error, members_[i])) continue;
      if (first == nullptr || answers[i].steps > first->steps) first = &answers[i];
    }
    // A set-up call succeeds only if it has succeeded on all members.
    if (method_ != kRunClosure) {
      if (!error.ok()) return done_(error);
      return done_(*std::move(first->message));
    }
    error = WithWhatItSays(error, answers);
    // Out of step are members that have done fewer steps than the member with the most steps, and
    // members whose progress is unknown.
    const size_t steps = first == nullptr ? 0 : first->steps;
    std::set<int> out_of_step;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].steps < steps || IsOpen(answers[i].error, members_[i])) {
        out_of_step.insert(members_[i].worker);
      }
    }
    // NoteUnanswered() runs before the callbacks below, because the scheduler asks for its results
    // (Unanswered, Broken) in them.
    NoteUnanswered(answers);
    if (!out_of_step.empty()) out_of_step_(out_of_step, error);
    if (first == nullptr) return done_(error);
    if (first->error.ok()) return done_(*std::move(first->message));
    done_(std::move(*first).With(error));
  }

  // Records which members have not answered the call themselves, for the closure's record of
  // attempts (attempts.h).
  void NoteUnanswered(const std::vector<Answer>& answers) {
    MutexLock lock(fate_->mutex);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!IsUnanswered(answers[i].error)) continue;
      fate_->unanswered.insert(members_[i].worker);
      if (!answers[i].reported_lost) fate_->broken.insert(members_[i].worker);
    }
  }

  // Returns `error`. If `error` blames a member that has answered with an error of its own, the
  // text of that member's error is added: the member may be alive, and know more about the cause.
  absl::Status WithWhatItSays(const absl::Status& error, const std::vector<Answer>& answers) const {
    const proto::ErrorDetail detail = DetailOf(error);
    if (detail.error_class() != proto::WORKER_LOST) return error;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (members_[i].task.index() != detail.origin().index()) continue;
      const absl::Status& own = answers[i].error;
      // The blamed member has not answered, so it has no error text of its own.
      if (ClassOf(own) == proto::ERROR_CLASS_UNKNOWN) return error;
      absl::string_view says = own.message();
      if (RepeatsMessage(says, error.message())) return error;
      // If the text of the member's own error begins with the text of `error`, only the rest is
      // added.
      if (!absl::ConsumePrefix(&says, error.message())) {
        return AlsoSaying(error, absl::StrCat("; ", TaskName(members_[i].task), " says: ", says));
      }
      return AlsoSaying(error, says);
    }
    return error;
  }
  static absl::Status AlsoSaying(const absl::Status& error, absl::string_view words) {
    if (words.empty()) return error;
    return WithDetail(absl::Status(error.code(), absl::StrCat(error.message(), words)),
                      DetailOf(error));
  }

  const std::vector<GangMember> members_;
  const std::shared_ptr<Fate> fate_;  // state shared with the GangChannel, which may end first
  const OutOfStep out_of_step_;
  const std::string method_;
  const Message request_;  // the request, which is the same for every member
  Reply done_;             // the completion, called once every member has answered or is lost
  Mutex mutex_;
  // The members' answers by rank. The answer of a lost member is the error of its loss.
  std::vector<std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
  std::set<size_t> awaited_ ABSL_GUARDED_BY(mutex_);  // ranks of members that have not answered
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // True once members were asked whether they are still there, because others report them as lost.
  // They are asked once per call.
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

GangChannel::GangChannel(std::vector<GangMember> members, OutOfStep out_of_step)
    : members_(std::move(members)),
      out_of_step_([out_of_step = std::move(out_of_step), fate = fate_](
                       const std::set<int>& workers, const absl::Status& cause) {
        if (!fate->retired.load()) out_of_step(workers, cause);
      }) {}

GangChannel::~GangChannel() = default;

std::unique_ptr<Call> GangChannel::Start(absl::string_view method, Message request,
                                         absl::Duration timeout, Reply done) {
  const auto call = std::make_shared<GangCall>(members_, fate_, out_of_step_, method,
                                               std::move(request), std::move(done));
  // A member that was lost before this call began will not answer the call.
  std::vector<std::pair<int, absl::Status>> lost;
  {
    MutexLock lock(mutex_);
    calls_.push_back(call);
    lost = lost_;
  }
  call->Start(timeout);
  for (const auto& [worker, cause] : lost) call->Lose(worker, cause);
  return nullptr;
}

std::set<int> GangChannel::Unanswered() const {
  MutexLock lock(fate_->mutex);
  return fate_->unanswered;
}

std::set<int> GangChannel::Broken() const {
  MutexLock lock(fate_->mutex);
  return fate_->broken;
}

void GangChannel::Lose(int worker, const absl::Status& cause) {
  std::vector<std::weak_ptr<GangCall>> calls;
  {
    MutexLock lock(mutex_);
    lost_.emplace_back(worker, cause);
    calls = calls_;
  }
  // Calls under way are told of the loss outside the lock: a call that ends may start other calls,
  // or lose other members.
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->Lose(worker, cause);
  }
}

}  // namespace cohort
