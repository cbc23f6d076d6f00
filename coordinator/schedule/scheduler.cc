#include "coordinator/schedule/scheduler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

constexpr char kRunClosure[] = "/cohort.proto.WorkerService/RunClosure";

void RunAll(std::vector<absl::AnyInvocable<void()>>& effects) {
  for (auto& effect : effects) effect();
}

Envelope<proto::RunClosureRequest> MakeRequest(const Closure& closure, uint64_t epoch,
                                               ClosureId watermark) {
  Envelope<proto::RunClosureRequest> request;
  proto::RunClosureRequest& header = request.header;
  header.set_epoch(epoch);
  header.set_closure_id(closure.id.value);
  header.set_attempt(closure.attempt);
  header.set_program_id(closure.program->id);
  header.set_watermark(watermark.value);
  header.set_learning_rate(closure.learning_rate);
  header.set_discard_fetches(closure.result.expired());
  header.set_step(closure.step == 0 ? closure.id.value : closure.step);
  if (const auto* split = std::get_if<SplitInput>(&closure.input)) {
    header.mutable_split()->set_dataset_id(split->dataset->id);
    *header.mutable_split()->mutable_position() = split->position;
  } else if (const auto* iterator =
                 std::get_if<std::shared_ptr<const RegisteredIterator>>(&closure.input)) {
    header.set_iterator_id((*iterator)->id);
  }
  for (const Tensor& argument : closure.arguments) {
    *header.add_arguments() = MetaOf(argument);
    request.payload.push_back(SliceOf(argument));
  }
  return request;
}

absl::StatusOr<FetchedTensors> ReadFetches(
    const absl::StatusOr<Envelope<proto::RunClosureResponse>>& response) {
  if (!response.ok()) return response.status();
  return ReadTensors(response->header.fetches(), response->payload);
}

}  // namespace

std::shared_ptr<Scheduler> Scheduler::Create(Options options) {
  return std::shared_ptr<Scheduler>(new Scheduler(std::move(options)));
}

Scheduler::Scheduler(Options options)
    : options_(std::move(options)), queue_(options_.queue_bound), resources_(options_.epoch) {}

WaitId Scheduler::Schedule(std::shared_ptr<Closure> closure, Done admitted) {
  Effects effects;
  WaitId wait;
  {
    MutexLock lock(mutex_);
    wait = waiting_.AddSchedule({std::move(closure), std::move(admitted)});
    Pump(effects);
  }
  RunAll(effects);
  return wait;
}

WaitId Scheduler::Join(Done done) {
  Effects effects;
  WaitId wait;
  {
    MutexLock lock(mutex_);
    wait = waiting_.AddJoin(std::move(done));
    Pump(effects);
  }
  RunAll(effects);
  return wait;
}

WaitId Scheduler::CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done) {
  Effects effects;
  WaitId wait;
  {
    MutexLock lock(mutex_);
    if (queue_.HasError()) {
      wait = waiting_.AddDone([done = std::move(done)](absl::Status error) mutable {
        if (error.ok()) return done(true);  // another call took the error; nothing is left
        done(error);
      });
      Pump(effects);
    } else {
      effects.push_back(
          [done = std::move(done), idle = queue_.IsIdle()]() mutable { done(idle); });
    }
  }
  RunAll(effects);
  return wait;
}

bool Scheduler::Abandon(WaitId wait) {
  Effects effects;
  bool removed = false;
  {
    MutexLock lock(mutex_);
    removed = waiting_.Remove(wait);
    Pump(effects);  // a Join that is gone holds nobody back
  }
  RunAll(effects);
  return removed;
}

void Scheduler::RecordError(const absl::Status& error) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    queue_.RecordError(error);
    Pump(effects);
  }
  RunAll(effects);
}

void Scheduler::WorkerReady(int worker, const proto::TaskRef& task,
                            std::shared_ptr<Channel> channel) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[worker];
    if (lane.task.incarnation() != task.incarnation()) lane.prepared.clear();
    lane.task = task;
    lane.channel = std::move(channel);
    lane.ready = true;
    Pump(effects);
  }
  RunAll(effects);
}

void Scheduler::WorkerLost(int worker) {
  MutexLock lock(mutex_);
  lanes_[worker].ready = false;
}

// Everything that may move after a change, in one place and in one order.
void Scheduler::Pump(Effects& effects) {
  ObserveErrorLocked(effects);
  FinishJoinsLocked(effects);
  AdmitLocked(effects);
  DispatchLocked(effects);
}

void Scheduler::ObserveErrorLocked(Effects& effects) {
  if (!queue_.HasError()) return;
  if (waiting_.empty()) return;
  for (std::shared_ptr<Closure>& closure : queue_.CancelQueued()) {
    CancelLocked(std::move(closure), effects);
  }
  if (!queue_.IsIdle()) return;  // closures in flight are awaited
  if (!IsFencedLocked(effects)) return;
  absl::Status error = queue_.TakeError();
  WaitingCalls::Admission observer = waiting_.TakeObserver();
  if (observer.closure != nullptr) CancelLocked(std::move(observer.closure), effects);
  effects.push_back([observer = std::move(observer.admitted), error]() mutable {
    observer(error);
  });
  for (Done& other : waiting_.TakeDones()) {
    effects.push_back([other = std::move(other)]() mutable { other(absl::OkStatus()); });
  }
}

bool Scheduler::IsFencedLocked(Effects& effects) {
  if (fence_ == Fence::kNotNeeded || !options_.fence) return true;
  if (fence_ == Fence::kUnderWay) return false;
  fence_ = Fence::kUnderWay;
  effects.push_back([self = shared_from_this(), watermark = queue_.watermark()] {
    self->options_.fence(watermark.value,
                         [self](absl::Status status) { self->OnFenced(status); });
  });
  return false;
}

// A ps that cannot be told is lost, and with it what a late push could have changed: the error that
// waits is not held back by it.
void Scheduler::OnFenced(const absl::Status& status) {
  if (!status.ok()) Log(LogLevel::kWarning, "fence_failed", {{"cause", status.message()}});
  Effects effects;
  {
    MutexLock lock(mutex_);
    fence_ = Fence::kNotNeeded;
    Pump(effects);
  }
  RunAll(effects);
}

void Scheduler::CancelLocked(std::shared_ptr<Closure> closure, Effects& effects) {
  effects.push_back([closure = std::move(closure)] {
    if (const auto result = closure->result.lock()) {
      result->Set(MakeError(absl::StatusCode::kCancelled,
                            "the closure was cancelled because another one failed; schedule it "
                            "again",
                            proto::CANCELLED));
    }
  });
}

void Scheduler::FinishJoinsLocked(Effects& effects) {
  if (queue_.HasError() || !queue_.IsIdle()) return;
  for (Done& join : waiting_.TakeJoins()) {
    effects.push_back([join = std::move(join)]() mutable { join(absl::OkStatus()); });
  }
}

void Scheduler::AdmitLocked(Effects& effects) {
  // A Join is a cut: what is scheduled while it waits is not its business, so it waits in turn.
  while (!queue_.HasError() && !waiting_.HasJoin() && waiting_.HasSchedule() &&
         queue_.HasRoom()) {
    WaitingCalls::Admission admission = waiting_.TakeSchedule();
    queue_.Put(std::move(admission.closure));
    effects.push_back([admitted = std::move(admission.admitted)]() mutable {
      admitted(absl::OkStatus());
    });
  }
}

Scheduler::Lane* Scheduler::FreestLaneLocked(int& worker) {
  Lane* best = nullptr;
  const auto consider = [&](int index, Lane& lane) {
    if (!lane.ready || lane.in_flight >= options_.closures_in_flight) return;
    if (best != nullptr && lane.in_flight >= best->in_flight) return;
    best = &lane;
    worker = index;
  };
  // Ties go round: the search starts behind the lane that was served last.
  for (auto it = lanes_.upper_bound(last_lane_); it != lanes_.end(); ++it) {
    consider(it->first, it->second);
  }
  for (auto it = lanes_.begin(); it != lanes_.end() && it->first <= last_lane_; ++it) {
    consider(it->first, it->second);
  }
  return best;
}

void Scheduler::DispatchLocked(Effects& effects) {
  // After an error nothing more starts: what is queued will be cancelled.
  while (queue_.queued() > 0 && !queue_.HasError()) {
    int worker = -1;
    Lane* const lane = FreestLaneLocked(worker);
    if (lane == nullptr) return;
    last_lane_ = worker;
    ++lane->in_flight;
    Run run;
    run.closure = queue_.Take();
    in_flight_[run.closure->id] = worker;
    run.worker = worker;
    run.task = lane->task;
    run.channel = lane->channel;
    for (std::string& key : ResourceCatalog::KeysFor(*run.closure)) {
      if (lane->prepared.count(key) == 0) run.missing.push_back(std::move(key));
    }
    effects.push_back([self = shared_from_this(), run = std::move(run)]() mutable {
      self->Start(std::move(run));
    });
  }
}

void Scheduler::Start(Run run) {
  if (run.missing.empty()) {
    Call(std::move(run));
  } else {
    Prepare(std::move(run));
  }
}

void Scheduler::Prepare(Run run) {
  ResourceRequest request;
  {
    MutexLock lock(mutex_);
    request = resources_.Request(*run.closure, run.missing.front(), run.worker);
  }
  Channel& channel = *run.channel;
  channel.Start(request.method, std::move(request.message), options_.closure_timeout,
                [self = shared_from_this(), run = std::move(run)](
                    absl::StatusOr<Message> response) mutable {
                  if (!response.ok()) return self->End(run, response.status());
                  {
                    MutexLock lock(self->mutex_);
                    Lane& lane = self->lanes_[run.worker];
                    if (lane.task.incarnation() == run.task.incarnation()) {
                      lane.prepared.insert(run.missing.front());
                    }
                  }
                  run.missing.erase(run.missing.begin());
                  self->Start(std::move(run));
                });
}

void Scheduler::Call(Run run) {
  ClosureId watermark;
  {
    MutexLock lock(mutex_);
    watermark = queue_.watermark();
  }
  Channel& channel = *run.channel;
  Envelope<proto::RunClosureRequest> request =
      MakeRequest(*run.closure, options_.epoch, watermark);
  StartCall<proto::RunClosureResponse>(
      channel, kRunClosure, std::move(request), options_.closure_timeout,
      [self = shared_from_this(), run = std::move(run)](
          absl::StatusOr<Envelope<proto::RunClosureResponse>> response) {
        self->End(run, std::move(response));
      });
}

void Scheduler::End(const Run& run,
                    absl::StatusOr<Envelope<proto::RunClosureResponse>> response) {
  const Outcome outcome = ClassifyOutcome(response.status());
  const absl::Status status = AttributedCall(response.status(), run.task);
  if (!response.ok()) response = status;
  Effects effects;
  if (outcome == Outcome::kDone || outcome == Outcome::kFailed) {
    // Before the queue moves on, so that a finished Join finds every result set.
    if (const auto result = run.closure->result.lock()) result->Set(ReadFetches(response));
  }
  {
    MutexLock lock(mutex_);
    if (response.ok() && response->header.has_next_position()) {
      const auto* iterator =
          std::get_if<std::shared_ptr<const RegisteredIterator>>(&run.closure->input);
      if (iterator != nullptr) {
        resources_.SetPosition((*iterator)->id, run.worker, response->header.next_position());
      }
    }
    EndLocked(run, status, outcome, effects);
    Pump(effects);
  }
  RunAll(effects);
}

void Scheduler::EndLocked(const Run& run, const absl::Status& status, Outcome outcome,
                          Effects& effects) {
  Lane& lane = lanes_[run.worker];
  --lane.in_flight;
  const ClosureId id = run.closure->id;
  in_flight_.erase(id);
  if (outcome == Outcome::kWorkerLost) fence_ = Fence::kNeeded;
  const bool same_process = lane.task.incarnation() == run.task.incarnation();
  if (outcome == Outcome::kDone) {
    ++stats_.done;
    return queue_.MarkDone(id);
  }
  if (outcome == Outcome::kFailed) {
    ++stats_.failed;
    return queue_.MarkFailed(id, status);
  }
  if (outcome == Outcome::kForgotten && same_process) lane.prepared.clear();
  if (outcome == Outcome::kWorkerLost && same_process) {
    lane.ready = false;
    if (options_.on_suspect) {
      effects.push_back([this, self = shared_from_this(), worker = run.worker,
                         incarnation = run.task.incarnation()] {
        options_.on_suspect(worker, incarnation);
      });
    }
  }
  if (run.closure->attempt >= options_.attempts_max) {
    ++stats_.failed;
    const absl::Status error =
        Annotate(status, absl::StrCat("closure ", id.value, " failed ", run.closure->attempt,
                                      " times, the last time"));
    effects.push_back([closure = run.closure, error] {
      if (const auto result = closure->result.lock()) result->Set(error);
    });
    return queue_.MarkFailed(id, error);
  }
  ++stats_.put_back;
  Log(LogLevel::kInfo, "closure_put_back",
      {{"closure", id.value}, {"attempt", run.closure->attempt},
       {"task", TaskName(run.task)}, {"cause", status.message()}});
  queue_.PutBack(id);
}

}  // namespace cohort
