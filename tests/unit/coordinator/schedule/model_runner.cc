#include "tests/unit/coordinator/schedule/model_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The larger one is reached seldom, and has room again only when two places are free.
constexpr size_t kBounds[] = {6, 16};
constexpr uint64_t kAheadMax[] = {0, 1, 3, 1000};
constexpr int kSlots = 2;
constexpr int kWorkersMax = 5;
constexpr size_t kSchedulesMax = 4;  // that wait
constexpr int kStepsToTheEnd = 2000;
constexpr size_t kHistoryShown = 40;
constexpr int kModulus = 997;  // sums stay exact in a float

class HeldChannel final : public Channel {
 public:
  HeldChannel(int worker, uint64_t incarnation, HeldCalls& held)
      : worker_(worker), incarnation_(incarnation), held_(held) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration,
                              Reply done) override {
    if (method != "/cohort.proto.WorkerService/RunClosure") {
      held_.preparations.push_back(std::move(done));
      return nullptr;
    }
    HeldCalls::Run& run = held_.runs.emplace_back();
    run.request.header.ParseFromString(request.header);
    run.request.payload = std::move(request.payload);
    run.done = std::move(done);
    const proto::RunClosureRequest& header = run.request.header;
    run.run = {header.closure_id(), worker_, incarnation_, header.session(), header.attempt()};
    held_.started.push_back(run.run);
    return nullptr;
  }

 private:
  const int worker_;
  const uint64_t incarnation_;
  HeldCalls& held_;
};

absl::StatusOr<Message> Sum(const Envelope<proto::RunClosureRequest>& request) {
  const auto arguments = ReadTensors(request.header.arguments(), request.payload);
  if (!arguments.ok()) return arguments.status();
  int sum = 0;
  for (const Tensor& argument : *arguments) sum += static_cast<int>(*argument.data<float>());
  const Tensor value = Tensor::Scalar(static_cast<float>(sum % kModulus));
  Envelope<proto::RunClosureResponse> response;
  *response.header.add_fetches() = MetaOf(value);
  response.payload.push_back(SliceOf(value));
  return Pack(std::move(response));
}

absl::StatusOr<Message> AnswerTo(const Envelope<proto::RunClosureRequest>& request,
                                 ModelAnswer answer, const std::string& error) {
  switch (answer) {
    case ModelAnswer::kDone:
      return Sum(request);
    case ModelAnswer::kFailed:
      return MakeError(absl::StatusCode::kInvalidArgument, error, proto::APPLICATION);
    case ModelAnswer::kTransient:
      return MakeError(absl::StatusCode::kUnavailable, error, proto::TRANSIENT);
    case ModelAnswer::kBroken:
      break;
  }
  return absl::UnavailableError("connection reset");
}

std::string Name(const ModelRun& run) {
  return absl::StrCat("closure ", run.id, " attempt ", run.attempt, " on worker:", run.worker);
}

}  // namespace

ModelRunner::ModelRunner(uint64_t seed)
    : rng_(seed), model_({kBounds[seed % 2], kSlots, kAheadMax[seed / 2 % 4]}) {
  Scheduler::Options options;
  options.epoch = epoch_;
  options.queue_bound = model_.bound();
  options.closures_in_flight = kSlots;
  options.steps_ahead_max = model_.ahead_max();
  options.attempts_max = options.quarantine_after = 1 << 30;
  options.fence = [this](uint64_t watermark, Scheduler::Done done) {
    error_fences_.push_back({watermark, ++error_fence_round_, std::move(done)});
  };
  options.fence_worker = [this](const std::set<uint64_t>& sessions, Scheduler::Done done) {
    session_fences_.push_back({sessions, std::move(done)});
  };
  scheduler_ = Scheduler::Create(sim_, std::move(options));
  auto program = std::make_shared<RegisteredProgram>();
  program->id = "sum";
  program_ = std::move(program);
}

// Open calls and fences hold the scheduler, which holds the channels.
ModelRunner::~ModelRunner() {
  held_.runs.clear();
  held_.preparations.clear();
  error_fences_.clear();
  session_fences_.clear();
}

std::string ModelRunner::Run(int steps) {
  for (int worker = 0; worker < 2; ++worker) Ready(worker, ++last_incarnation_);
  for (int step = 0; step < steps && problem_.empty(); ++step) RandomStep();
  BringToAnEnd();
  if (problem_.empty()) return "";
  const auto from = history_.end() - std::min(history_.size(), kHistoryShown);
  return absl::StrCat(absl::StrJoin(from, history_.end(), "\n"), "\n", problem_);
}

void ModelRunner::RandomStep() {
  const uint64_t draw = rng_.Below(100);
  const std::vector<int> ready = model_.Workers(true), away = model_.Workers(false);
  std::vector<int> all = ready;
  all.insert(all.end(), away.begin(), away.end());
  if (draw < 26) return Schedule();
  if (draw < 58 && !held_.runs.empty()) {
    const uint64_t kind = rng_.Below(100);
    const ModelAnswer answer = kind < 72   ? ModelAnswer::kDone
                               : kind < 79 ? ModelAnswer::kFailed
                               : kind < 88 ? ModelAnswer::kTransient
                                           : ModelAnswer::kBroken;
    return Answer(rng_.Below(held_.runs.size()), answer);
  }
  if (draw < 61) {
    const int call = NewCall();
    return Both(
        absl::StrCat("join ", call), [&] { waits_[call] = scheduler_->Join(EndOf(call)); },
        [&] { model_.Join(call); });
  }
  if (draw < 64) {
    const int call = NewCall();
    const auto end = [this, call](const absl::StatusOr<bool>& idle) {
      End(call, !idle.ok() ? std::string(idle.status().message()) : *idle ? "idle" : "busy");
    };
    return Both(
        absl::StrCat("done ", call), [&] { waits_[call] = scheduler_->CheckDone(end); },
        [&] { model_.Done(call); });
  }
  if (draw < 68) return Fetch();
  if (draw < 70) return Abandon();
  if (draw < 77 && !away.empty()) {
    const int worker = AnyOf(away);
    // The process that was lost, or another.
    const bool same = rng_.Below(3) == 0;
    return Ready(worker, same ? model_.IncarnationOf(worker) : ++last_incarnation_);
  }
  if (draw < 81 && all.size() < kWorkersMax) {
    int worker = 0;
    while (std::count(all.begin(), all.end(), worker) > 0) ++worker;
    return Ready(worker, ++last_incarnation_);
  }
  if (draw < 85 && !all.empty()) return Lose(AnyOf(all));
  if (draw < 88 && !all.empty()) return Remove(AnyOf(all));
  if (draw < 97) return Fence();
  if (draw == 97) {
    const std::string text = absl::StrCat("outside error ", rng_.Below(3));
    return Both(
        text, [&] { scheduler_->RecordError(absl::DataLossError(text)); },
        [&] { model_.RecordError(text); });
  }
  Pause();
}

void ModelRunner::Schedule() {
  if (model_.schedules() >= kSchedulesMax) return;
  const int call = NewCall();
  auto closure = std::make_shared<Closure>();
  closure->program = program_;
  const auto ticket = static_cast<int>(values_.size());
  closure->arguments.emplace_back(Tensor::Scalar(static_cast<float>(ticket + 1)));
  std::vector<int> inputs;
  for (uint64_t i = rng_.Below(6); i < 2 && ticket > 0; ++i) {
    // One of the last, so that it often has not ended.
    const auto behind = static_cast<int>(rng_.Below(4));
    const int input = std::max(ticket - 1 - behind, 0);
    if (values_[input] == nullptr || !model_.IsAdmitted(input)) continue;
    inputs.push_back(input);
    closure->arguments.emplace_back(RemoteValue(values_[input], 1));
  }
  const bool wanted = rng_.Below(8) > 0;
  values_.push_back(wanted ? std::make_shared<RemoteValueState>() : nullptr);
  closure->result = values_.back();
  Both(
      absl::StrCat("schedule ", call, " of ", ticket, " with [", absl::StrJoin(inputs, " "), "]"),
      [&] { waits_[call] = scheduler_->Schedule(std::move(closure), EndOf(call)); },
      [&] { model_.Schedule(call, inputs); });
}

void ModelRunner::Fetch() {
  if (values_.empty()) return;
  const auto ticket =
      static_cast<int>(values_.size() - 1 - rng_.Below(std::min<size_t>(values_.size(), 8)));
  if (values_[ticket] == nullptr || !model_.IsAdmitted(ticket)) return;
  const int call = NewCall();
  Both(
      absl::StrCat("fetch ", call, " of ", ticket),
      [&] {
        scheduler_->BeginFetch();
        fetches_[call] = ticket;
      },
      [&] { model_.BeginFetch(call, ticket); });
}

void ModelRunner::Abandon() {
  if (waits_.empty()) return;
  const auto wait = std::next(waits_.begin(), static_cast<long>(rng_.Below(waits_.size())));
  bool real = false, model = false;
  Both(
      absl::StrCat("abandon ", wait->first), [&] { real = scheduler_->Abandon(wait->second); },
      [&] { model = model_.Abandon(wait->first); });
  if (real != model) Fail(absl::StrCat("abandoned: ", real, ", by the model: ", model));
  waits_.erase(wait);
}

void ModelRunner::Answer(size_t which, ModelAnswer answer) {
  HeldCalls::Run open = std::move(held_.runs[which]);
  held_.runs.erase(held_.runs.begin() + static_cast<long>(which));
  static constexpr const char* kNames[] = {"done", "failed", "transient", "broken"};
  const std::string error = absl::StrCat("boom ", rng_.Below(20));
  if (answer == ModelAnswer::kBroken) broken_.push_back(open.run);
  const size_t fences = session_fences_.size();
  std::set<uint64_t> sessions;
  Both(
      absl::StrCat(kNames[static_cast<int>(answer)], ": ", Name(open.run), " (", error, ")"),
      [&] { open.done(AnswerTo(open.request, answer, error)); },
      [&] { sessions = model_.Answered(open.run, answer, error); });
  CompareFences(fences, sessions);
}

// What was asked to be fenced, after `before` fences, is what should be.
void ModelRunner::CompareFences(size_t before, const std::set<uint64_t>& sessions) {
  const bool asked = session_fences_.size() > before;
  if (asked ? session_fences_.back().sessions != sessions : !sessions.empty()) {
    Fail(absl::StrCat("to be fenced: sessions ", absl::StrJoin(sessions, " ")));
  }
}

void ModelRunner::Ready(int worker, uint64_t incarnation) {
  proto::TaskRef task;
  task.set_role("worker");
  task.set_index(worker);
  task.set_incarnation(incarnation);
  const auto channel = std::make_shared<HeldChannel>(worker, incarnation, held_);
  Both(
      absl::StrCat("worker:", worker, " is there, incarnation ", incarnation),
      [&] { scheduler_->WorkerReady(worker, task, "host", channel); },
      [&] { model_.Ready(worker, incarnation); });
}

void ModelRunner::Lose(int worker) {
  const size_t fences = session_fences_.size();
  std::set<uint64_t> sessions;
  Both(
      absl::StrCat("worker:", worker, " is lost"),
      [&] { scheduler_->WorkerLost(worker, absl::UnavailableError("gone")); },
      [&] { sessions = model_.Lost(worker); });
  CompareFences(fences, sessions);
}

void ModelRunner::Remove(int worker) {
  const int call = NewCall();
  Both(
      absl::StrCat("remove ", call, " of worker:", worker),
      [&] { scheduler_->RemoveWorker(worker, [this, call] { End(call, "OK"); }); },
      [&] { model_.Remove(worker, call); });
}

// Every parameter server has answered one of the fences.
void ModelRunner::Fence() {
  const size_t all = session_fences_.size() + error_fences_.size();
  if (all == 0) return;
  const size_t which = rng_.Below(all);
  if (which < session_fences_.size()) {
    SessionFence fence = std::move(session_fences_[which]);
    session_fences_.erase(session_fences_.begin() + static_cast<long>(which));
    fenced_sessions_.insert(fence.sessions.begin(), fence.sessions.end());
    return Both(
        absl::StrCat("sessions ", absl::StrJoin(fence.sessions, " "), " are fenced"),
        [&] { fence.done(absl::OkStatus()); }, [&] { model_.SessionsFenced(fence.sessions); });
  }
  const size_t index = which - session_fences_.size();
  ErrorFence fence = std::move(error_fences_[index]);
  error_fences_.erase(error_fences_.begin() + static_cast<long>(index));
  fenced_below_ = std::max(fenced_below_, fence.watermark);
  Both(
      absl::StrCat("everything below ", fence.watermark, " is fenced"),
      [&] { fence.done(absl::OkStatus()); }, [&] { model_.ErrorFenced(fence.round); });
}

// A parameter server is lost, or all are there again, in an epoch that refuses older calls.
void ModelRunner::Pause() {
  if (!model_.IsPaused()) {
    fenced_epochs_ = model_.last_session();
    return Both(
        "pause", [&] { scheduler_->Pause("ps:0 was lost"); }, [&] { model_.Pause(); });
  }
  Both(
      "resume", [&] { scheduler_->Resume(++epoch_); }, [&] { model_.Resume(); });
}

void ModelRunner::BringToAnEnd() {
  if (model_.IsPaused() && problem_.empty()) Pause();
  for (int step = 0; problem_.empty(); ++step) {
    if (step == kStepsToTheEnd) return Fail("it does not end");
    if (!error_fences_.empty() || !session_fences_.empty()) {
      Fence();
    } else if (model_.Workers(true).empty()) {
      Ready(kWorkersMax + step, ++last_incarnation_);
    } else if (!held_.runs.empty()) {
      Answer(0, ModelAnswer::kDone);
    } else if (!model_.IsIdle() || model_.HasWaitingCalls()) {
      const int call = NewCall();
      Both(
          absl::StrCat("join ", call), [&] { scheduler_->Join(EndOf(call)); },
          [&] { model_.Join(call); });
    } else {
      if (!fetches_.empty()) Fail("a fetch has not ended");
      return;
    }
  }
}

}  // namespace cohort
