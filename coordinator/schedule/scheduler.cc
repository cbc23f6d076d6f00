#include "coordinator/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/schedule/gang_channel.h"

namespace cohort {

namespace {

// The maximum number of closures that DescribeWait() names, so that its text stays readable.
constexpr size_t kClosuresShownMax = 3;

// Returns the lineup that orders gangs. If gangs run on several workers, the lineup begins with the
// workers that the options name as members; otherwise it has no members.
GangLineup LineupFor(const SchedulerOptions& options) {
  if (options.gang_size <= 1) return GangLineup();
  std::set<int> workers = options.gang_workers;
  for (int worker = 0; options.gang_workers.empty() && worker < options.gang_size; ++worker) {
    workers.insert(worker);
  }
  return GangLineup(std::move(workers));
}

// Replaces each result among the closure's arguments by the tensors that it holds. Errors: the
// error of the first result that holds an error instead of tensors, with its class changed to
// INPUT.
absl::Status Resolve(Closure& closure) {
  std::vector<Argument> resolved;
  for (Argument& argument : closure.arguments) {
    const auto* value = std::get_if<RemoteValue>(&argument);
    if (value == nullptr) {
      resolved.push_back(std::move(argument));
      continue;
    }
    const absl::StatusOr<FetchedTensors>& result = value->state().result();
    if (!result.ok()) {
      proto::ErrorDetail detail = DetailOf(result.status());
      // The error class INPUT says that another closure is at fault, and not the one that takes its
      // result.
      detail.set_error_class(proto::INPUT);
      return WithDetail(
          Annotate(result.status(), absl::StrCat("an argument of closure ", closure.id.value)),
          detail);
    }
    for (const Tensor& tensor : *result) resolved.push_back(tensor);
  }
  closure.arguments = std::move(resolved);
  return absl::OkStatus();
}

}  // namespace

Scheduler::Change::Change(Scheduler& scheduler) : scheduler_(scheduler) {
  scheduler_.mutex_.Lock();
}

Scheduler::Change::~Change() {
  {
    const InvariantsAfter check(scheduler_);
    if (moves_) scheduler_.Pump(effects);
  }
  scheduler_.mutex_.Unlock();
  // The effects run without the scheduler's lock, because they are callbacks and calls that may
  // call the scheduler again.
  for (auto& effect : effects) effect();
}

std::shared_ptr<Scheduler> Scheduler::Create(Clock& clock, Options options) {
  return std::shared_ptr<Scheduler>(new Scheduler(clock, std::move(options)));
}

Scheduler::Scheduler(Clock& clock, Options options)
    : clock_(clock),
      options_(std::move(options)),
      epoch_(options_.epoch),
      queue_(options_.queue_bound),
      redo_(options_.redo_max),
      resources_(options_.epoch),
      slots_(options_.closures_in_flight),
      gangs_(LineupFor(options_)) {}

WaitId Scheduler::Schedule(std::shared_ptr<Closure> closure, Done admitted) {
  Change change(*this);
  const WaitId wait = waiting_.AddSchedule({std::move(closure), std::move(admitted)});
  return wait;
}

WaitId Scheduler::Join(Done done) {
  Change change(*this);
  const WaitId wait = waiting_.AddJoin(std::move(done));
  return wait;
}

WaitId Scheduler::CheckDone(absl::AnyInvocable<void(absl::StatusOr<bool>)> done) {
  Change change(*this);
  if (queue_.HasError()) {
    return waiting_.AddDone([done = std::move(done)](absl::Status error) mutable {
      // If `done` gets OK, another call has received the error, and no closure is left.
      if (error.ok()) return done(true);
      done(error);
    });
  }
  change.IsNone();
  change.effects.push_back([done = std::move(done),
                            idle = queue_.IsIdle() && paused_.empty()]() mutable { done(idle); });
  return WaitId();
}

bool Scheduler::Abandon(WaitId wait) {
  Change change(*this);
  // Schedule calls that waited for the end of this Join go on now.
  return waiting_.Remove(wait);
}

void Scheduler::RecordError(const absl::Status& error) {
  Change change(*this);
  queue_.RecordError(error);
}

void Scheduler::BeginFetch() {
  Change change(*this);
  ++fetches_;
}

void Scheduler::EndFetch() {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  --fetches_;
}

void Scheduler::WorkerReady(int worker, const proto::TaskRef& task, const std::string& address,
                            std::shared_ptr<Channel> channel) {
  Change change(*this);
  // A worker that is being removed is not attached, and gets no more closures.
  if (!slots_.Attach(worker, task, address, std::move(channel))) return change.IsNone();
  queue_.OnServing(task);
}

void Scheduler::WorkerLost(int worker, const absl::Status& cause) {
  std::set<uint64_t> sessions;
  std::set<uint64_t> fencing;
  absl::Status attributed;
  std::vector<std::shared_ptr<GangChannel>> gangs;
  {
    Change change(*this);
    const WorkerSlots* const slots = slots_.Find(worker);
    if (slots == nullptr) return change.IsNone();
    slots_.Detach(worker);
    attributed = AttributedCall(cause, slots->task);
    proto::ErrorDetail detail = DetailOf(attributed);
    detail.set_given_up(true);
    attributed = WithDetail(attributed, detail);
    for (const auto& [id, run] : in_flight_) {
      if (!run.Involves(worker)) continue;
      const bool of_session = run.Member(worker)->session == slots->session;
      // Only a run that was called in the worker's present session may have caused the end of the
      // process.
      if (run.called && of_session) {
        run.closure->record.AddUnanswered(run.attempt, slots->task, attributed);
        queue_.Strike(id);
      }
      // A run of a gang ends with the answers of its other members. A run on one worker is taken
      // back once its session is fenced.
      if (run.gang_channel != nullptr) {
        gangs.push_back(run.gang_channel);
      } else {
        sessions.insert(run.session);
      }
    }
    queue_.OnGivenUp(slots->task);
    // A lost worker leaves the gangs. Its late pushes in the present generation of gangs have to be
    // fenced.
    if (options_.gang_size > 1 && gangs_.IsInStep(worker)) {
      OutOfStepLocked({{worker, gangs_.session()}}, attributed, change.effects);
      fencing = fences_.sessions();
    }
  }
  // The lost worker counts no longer as a home of variables, so no fence may wait for its answer.
  // Fences under way are therefore requested again, from the remaining homes.
  if (!fencing.empty()) AskForFence(fencing, attributed, 1);
  for (const auto& gang : gangs) gang->Lose(worker, attributed);
  FenceAndTakeBack(sessions, attributed);
}

// Does everything that a change of state has made possible, in a fixed order: ends closures,
// delivers errors, ends waiting calls, admits closures, starts runs, asks for checkpoints.
void Scheduler::Pump(Effects& effects) {
  // Closures are ended and errors delivered first. Only then is it known whether the queue has room
  // and whether it is idle.
  for (auto& drained : slots_.TakeDrained()) effects.push_back(std::move(drained));
  EndQueuedLocked(effects);
  for (const auto& struck : queue_.Struck()) QuarantineLocked(*struck, 0, effects);
  ObserveErrorLocked(effects);
  FinishJoinsLocked(effects);
  FinishStableWaitsLocked(effects);
  AdmitLocked(effects);
  DispatchLocked(effects);
  AskForCheckpointLocked(effects);
  FinishHoldLocked(effects);
}

void Scheduler::ObserveErrorLocked(Effects& effects) {
  if (!queue_.HasError()) return;
  // If no call waits that could receive the error, the error stays recorded.
  if (waiting_.empty() || snapshots_.recording) return;
  const absl::Status cancelled = MakeError(
      absl::StatusCode::kCancelled,
      "the closure was cancelled because another one failed; schedule it again", proto::CANCELLED);
  for (std::shared_ptr<Closure>& closure : queue_.CancelQueued()) {
    CancelLocked(std::move(closure), cancelled, effects);
  }
  EndBrokenRoundLocked();
  if (!queue_.IsIdle()) return;  // the error waits until no closure is in flight
  if (!IsFencedLocked(effects)) return;
  absl::Status error = queue_.TakeError();
  // After Close, the error is recorded again, so that every later call gets it.
  if (!closed_.ok()) queue_.RecordError(closed_);
  WaitingCalls::Admission observer = waiting_.TakeObserver();
  // If a Schedule receives the error, its closure was never admitted, and is cancelled.
  if (observer.closure != nullptr) CancelLocked(std::move(observer.closure), cancelled, effects);
  effects.push_back(
      [observer = std::move(observer.admitted), error]() mutable { observer(error); });
  // Only one call gets the error. All other waiting Done calls are answered as if the queue were
  // empty and without an error.
  for (Done& other : waiting_.TakeDones()) {
    effects.push_back([other = std::move(other)]() mutable { other(absl::OkStatus()); });
  }
}

bool Scheduler::IsFencedLocked(Effects& effects) {
  if (!fences_.IsNeeded() || !options_.fence) return true;
  // While the scheduler is paused, all late pushes are of an old epoch, and need no fence. A fence
  // in the next epoch would refuse the pushes of closures that run again.
  if (!paused_.empty()) return true;
  // No fence begins while snapshots are taken, because a slice would be saved with the fence's
  // watermark. This watermark counts closures as ended that are open in the checkpoint's cut and
  // that the next coordinator runs again.
  if (snapshots_.before.has_value()) return false;
  if (fences_.IsUnderWay()) return false;
  effects.push_back([self = shared_from_this(), watermark = queue_.watermark(),
                     number = fences_.Begin()] {
    self->options_.fence(watermark.value,
                         [self, number](absl::Status status) { self->OnFenced(number, status); });
  });
  return false;
}

// Handles the end of a fence. If the fence has failed, the error that waits for the fence is
// delivered nevertheless: a ps is then lost, and with it every variable that a late push could
// change.
void Scheduler::OnFenced(uint64_t number, const absl::Status& status) {
  if (!status.ok()) Log(LogLevel::kWarning, "fence_failed", {{"cause", status.message()}});
  Change change(*this);
  // If the fence began before a restore, its answer says nothing about closures that have run
  // since.
  if (!fences_.End(number)) change.IsNone();
}

void Scheduler::EndQueuedLocked(Effects& effects) {
  if (closed_.ok()) return;
  for (std::shared_ptr<Closure>& closure : queue_.CancelQueued()) {
    CancelLocked(std::move(closure), closed_, effects);
  }
}

void Scheduler::CancelLocked(std::shared_ptr<Closure> closure, const absl::Status& status,
                             Effects& effects) {
  DropLocked(closure->id);
  effects.push_back([closure = std::move(closure), status] {
    // The closure's result is set outside the scheduler's lock, because setting it runs callbacks.
    if (const auto result = closure->result.lock()) result->Set(status);
  });
}

void Scheduler::FinishJoinsLocked(Effects& effects) {
  // While the scheduler is paused, it counts as busy, because Resume may queue replays.
  if (queue_.HasError() || !queue_.IsIdle() || !paused_.empty() || snapshots_.recording) return;
  for (Done& join : waiting_.TakeJoins()) {
    effects.push_back([join = std::move(join)]() mutable { join(absl::OkStatus()); });
  }
}

void Scheduler::AdmitLocked(Effects& effects) {
  // A Join waits only for closures that were scheduled before it. So closures that are scheduled
  // later are admitted only after the Join has ended.
  while (!queue_.HasError() && !waiting_.HasJoin() && waiting_.HasSchedule() && queue_.HasRoom()) {
    // If the redo log is full, it gets room only through a checkpoint, which makes closures
    // durable.
    if (!redo_.HasRoom()) {
      if (options_.on_checkpoint_due) effects.push_back(options_.on_checkpoint_due);
      return;
    }
    WaitingCalls::Admission admission = waiting_.TakeSchedule();
    const std::shared_ptr<Closure> closure = std::move(admission.closure);
    // If a closure takes results of other closures as arguments, it waits until all of these are
    // ready.
    closure->inputs_left = static_cast<size_t>(
        std::count_if(closure->arguments.begin(), closure->arguments.end(),
                      [](const Argument& a) { return std::holds_alternative<RemoteValue>(a); }));
    const ClosureId id =
        closure->inputs_left > 0 ? queue_.PutWaiting(closure) : queue_.Put(closure);
    redo_.Admit(closure);
    if (closure->inputs_left > 0) WatchInputs(closure, effects);
    if (closure->deadline != absl::InfiniteFuture()) {
      // The timer holds a weak pointer to the scheduler, because it may outlive the scheduler.
      timers_[id] = clock_.CallAt(closure->deadline, [weak = weak_from_this(), id] {
        if (const auto self = weak.lock()) self->Expire(id);
      });
    }
    effects.push_back(
        [admitted = std::move(admission.admitted)]() mutable { admitted(absl::OkStatus()); });
  }
}

// Returns whether the next closure must wait because of bounded staleness: it is more than
// steps_ahead_max ids ahead of the oldest closure that has not ended. Closures that were lost with
// a worker, or run again after a restore, have not ended, so the bound holds for them too. The
// oldest closure itself never has to wait.
bool Scheduler::IsTooFarAheadLocked() const {
  const Closure* const next = queue_.Front();
  if (next == nullptr || next->id == queue_.watermark()) return false;
  // The last step of a closure decides how far ahead it is, because this step reads the variables
  // last.
  const uint64_t last = next->id.value + next->num_steps() - 1;
  return last - queue_.watermark().value > options_.steps_ahead_max;
}

bool Scheduler::IsBehindARoundLocked() const {
  const Closure* const front = queue_.Front();
  const uint64_t next = front == nullptr ? 0 : front->round.number;
  if (front != nullptr && rounds_.IsHeld(*front)) return true;
  // A gang need not wait until earlier rounds are applied: gangs keep their order on the workers
  // (gang_lineup.h).
  if (front != nullptr && front->gang) return !gangs_.IsOpen(clock_.Now());
  if (rounds_.IsApplied(next)) return false;
  for (const auto& [id, run] : in_flight_) {
    // `in_flight_` is ordered by id, so the first round found here that is not applied is the
    // oldest such round in flight.
    const uint64_t round = run.closure->round.number;
    if (!rounds_.IsApplied(round)) return round < next || rounds_.HasOlder(next);
  }
  // If an error has broken an earlier round off, that round will never be applied, so no later
  // closure waits for it.
  return rounds_.HasOlder(next) && !queue_.HasError();
}

bool Scheduler::IsRoundBrokenLocked() const {
  return queue_.HasError() && in_flight_.empty() && !queue_.HasQueuedReplay();
}

// Gives up rounds that an error has broken off. Their answered closures count as cancelled. Replays
// among them cannot be cancelled, because callers have already seen their results, so they run
// again as a smaller round.
void Scheduler::EndBrokenRoundLocked() {
  if (!IsRoundBrokenLocked()) return;
  // Slices may have kept pushes of the round that failed. A fence makes the slices drop these
  // pushes.
  if (!rounds_.empty()) fences_.Need();
  const OpenRounds::Closures answered = rounds_.TakeAnswered();
  std::map<uint64_t, uint32_t> left;  // number of replays to run again, by round
  for (const auto& closure : answered) left[closure->round.number] += queue_.IsReplay(closure->id);
  for (const auto& closure : answered) {
    if (queue_.IsReplay(closure->id)) {
      // The round can be applied only if its `aggregate` does not exceed the number of closures
      // that are left.
      closure->round.aggregate = std::min(closure->round.aggregate, left[closure->round.number]);
      queue_.PutBack(closure->id);
    } else {
      DropLocked(closure->id);
      queue_.MarkCancelled(closure->id);
    }
  }
}

void Scheduler::FinishHoldLocked(Effects& effects) {
  if (GangLineup::Held held = gangs_.TakeHeld(); held != nullptr) {
    effects.push_back([held = std::move(held)]() mutable { held(absl::OkStatus()); });
  }
  if (in_flight_.empty() && IsDrainedLocked() && *drain_ != nullptr) {
    effects.push_back(
        [idle = std::exchange(*drain_, nullptr)]() mutable { idle(absl::OkStatus()); });
  }
  // If an error has broken a round off, the round stays half applied. The callback of HoldRounds
  // then gets an error that names the round.
  OpenRounds::Ready ready = rounds_.TakeReady(IsRoundBrokenLocked());
  if (ready == nullptr) return;
  effects.push_back(
      [ready = std::move(ready), status = rounds_.HoldStatus()]() mutable { ready(status); });
}

void Scheduler::DispatchLocked(Effects& effects) {
  if (!paused_.empty() || !closed_.ok()) return;
  while (queue_.queued() > 0) {
    // After an error, queued closures do not start, because they will be cancelled. They do start
    // if a Fetch or WhenStable waits for their effects.
    const bool stops = options_.stop_at_first_error && fetches_ == 0 && stable_waits_.empty();
    if (queue_.HasError() && stops && !queue_.IsReplay(queue_.Front()->id)) return;
    // Closures that came after the cut of a checkpoint must not change variables before
    // EndSnapshots.
    if (snapshots_.before.has_value() && !(queue_.Front()->id < *snapshots_.before)) return;
    if (queue_.IsFrontBehindReplays()) return;
    if (IsTooFarAheadLocked() || IsBehindARoundLocked() || IsDrainedLocked()) return;
    const std::vector<int> workers = WorkersForFrontLocked();
    if (workers.empty()) return;
    Run run = TakeFrontLocked(workers);
    // Start() is called outside the lock, because the run's call may end at once.
    effects.push_back([self = shared_from_this(), run = std::move(run)]() mutable {
      self->Start(std::move(run));
    });
  }
}

void Scheduler::WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects) {
  for (const Argument& argument : closure->arguments) {
    const auto* value = std::get_if<RemoteValue>(&argument);
    if (value == nullptr) continue;
    // OnReady is called outside the lock: if the result is ready already, the callback runs at
    // once.
    effects.push_back([weak = weak_from_this(), value = *value, id = closure->id] {
      value.state().OnReady([weak, id](const absl::StatusOr<FetchedTensors>&) {
        if (const auto self = weak.lock()) self->OnInput(id);
      });
    });
  }
}

void Scheduler::OnInput(ClosureId id) {
  Change change(*this);
  Closure* const closure = queue_.FindWaiting(id);
  // There is nothing to do if the closure was cancelled meanwhile, or if it waits for further
  // results.
  if (closure == nullptr || --closure->inputs_left > 0) return change.IsNone();
  const absl::Status resolved = Resolve(*closure);
  if (resolved.ok()) {
    queue_.MakeReady(id);
  } else {
    queue_.RecordError(resolved);
    FailQueuedLocked(id, resolved, change.effects);
  }
}

// Ends a queued closure with an error. Does not record the error in the queue: the caller does that
// if a call of Schedule, Join or Done is to receive the error.
void Scheduler::FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects) {
  const std::shared_ptr<Closure> closure = queue_.RemoveQueued(id);
  ++stats_.failed;
  DropLocked(id);
  effects.push_back([closure, error] {
    if (const auto result = closure->result.lock()) result->Set(error);
  });
}

bool Scheduler::QuarantineLocked(const Closure& closure, uint32_t ends_now, Effects& effects) {
  // A closure in flight is not quarantined, because its present attempt may succeed.
  if (in_flight_.count(closure.id) > 0) return false;
  // If the job has only one worker, there is no other worker to compare with, so crashes of this
  // worker alone are enough.
  const bool only_worker = slots_.known() <= 1;
  if (!closure.record.IsPoison(options_.quarantine_after, only_worker, ends_now)) return false;
  const std::string casualties = closure.record.Casualties(ends_now);
  ++stats_.quarantined;
  Log(LogLevel::kError, "closure_quarantined",
      {{"closure", closure.id.value}, {"causes", casualties}});
  const absl::Status error = absl::UnavailableError(
      absl::StrCat("closure ", closure.id.value, " is quarantined: ", casualties));
  // A closure of a round is never skipped, because its round needs all of its closures.
  const bool skipped = options_.quarantine == Quarantine::kSkip && closure.round.number == 0;
  if (!skipped) queue_.RecordError(error);
  FailQueuedLocked(closure.id, error, effects);
  return true;
}

void Scheduler::DropLocked(ClosureId id) {
  redo_.Drop(id);
  EndTimerLocked(id);
}

void Scheduler::EndTimerLocked(ClosureId id) {
  const auto timer = timers_.find(id);
  if (timer == timers_.end()) return;
  clock_.Cancel(timer->second);
  timers_.erase(timer);
}

// Ends a closure whose deadline has passed while it waits for arguments or is queued. If the
// closure is in flight, nothing is done: the time limit of its call is the deadline.
void Scheduler::Expire(ClosureId id) {
  Change change(*this);
  timers_.erase(id);
  const Closure* const closure = queue_.FindQueued(id);
  // If FindQueued() returns nullptr, the closure is in flight or has ended.
  if (closure == nullptr) return change.IsNone();
  const absl::Status error =
      MakeError(absl::StatusCode::kDeadlineExceeded,
                absl::StrCat("closure ", id.value, " was still queued at its deadline, after ",
                             closure->attempt, " attempts: ",
                             closure->inputs_left > 0 ? "an argument was not there yet"
                                                      : "no worker had room for it"),
                proto::APPLICATION);
  queue_.RecordError(error);
  FailQueuedLocked(id, error, change.effects);
}

Scheduler::Stats Scheduler::stats() const {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.queued = queue_.queued() + queue_.waiting();
  stats.in_flight = queue_.in_flight();
  for (const auto& [worker, slots] : slots_.all()) stats.workers_ready += slots.ready ? 1 : 0;
  return stats;
}

std::map<int, WorkerStats> Scheduler::workers() const {
  MutexLock lock(mutex_);
  return slots_.stats();
}

std::string Scheduler::DescribeWait() const {
  MutexLock lock(mutex_);
  std::string text =
      absl::StrCat(queue_.queued(), " closures queued, ", queue_.in_flight(), " in flight");
  if (queue_.waiting() > 0) {
    absl::StrAppend(&text, ", ", queue_.waiting(), " waiting for results of others");
  }
  if (!paused_.empty()) absl::StrAppend(&text, "; paused: ", paused_);
  if (!redo_.HasRoom()) {
    absl::StrAppend(&text, "; ", redo_.size(), " closures wait for a checkpoint to cover them");
  }
  if (snapshots_.before.has_value()) {
    absl::StrAppend(&text, "; those from ", snapshots_.before->value,
                    " on wait for the snapshots of a checkpoint");
  }
  if (queue_.IsFrontBehindReplays()) {
    absl::StrAppend(&text, "; those from ", queue_.Front()->id.value,
                    " on wait until the closures before ", queue_.Front()->after.value,
                    " have run again");
  }
  if (IsTooFarAheadLocked()) {
    absl::StrAppend(&text, "; those from ", queue_.Front()->id.value, " on are too far ahead of ",
                    queue_.watermark().value, ", and may be ", options_.steps_ahead_max,
                    " steps ahead");
  }
  size_t shown = 0;
  for (const auto& [id, run] : in_flight_) {
    if (shown++ == kClosuresShownMax) break;
    absl::StrAppend(&text, shown == 1 ? "; the oldest: " : ", ", id.value,
                    " on worker:", run.worker());
  }
  for (const auto& [worker, slots] : slots_.all()) {
    absl::StrAppend(&text, "; worker:", worker, slots.ready ? " serving" : " lost", ", ",
                    slots.in_flight, " in flight");
  }
  if (slots_.all().empty()) absl::StrAppend(&text, "; no worker has been there");
  absl::StrAppend(&text, "; calls that wait: ", waiting_.ToString());
  return text;
}

void Scheduler::CheckInvariants() const {
  COHORT_CHECK(queue_.in_flight() == in_flight_.size() + rounds_.answered(),
               "a closure that has not ended is queued, in flight or answered");
  COHORT_CHECK(fetches_ >= 0, "a fetch ends once");
  if (in_flight_.size() > kFrequentWalkMax) return;
  std::map<int, int> running;
  for (const auto& [id, run] : in_flight_) {
    COHORT_CHECK(run.closure->id == id, "a run stands under its closure's id");
    for (const GangMember& member : run.members) ++running[member.worker];
  }
  for (const auto& [worker, slots] : slots_.all()) {
    COHORT_CHECK(slots.in_flight == running[worker], "slots count what the worker runs");
  }
}

}  // namespace cohort
