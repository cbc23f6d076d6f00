// The part of Scheduler that runs closures on workers: it chooses the workers for the next closure,
// calls them, handles the end of each call, and knows which members of gangs are in step.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/invariants.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/moved_bytes.h"
#include "common/wire/step_times.h"
#include "coordinator/schedule/closure_call.h"
#include "coordinator/schedule/gang_channel.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);
constexpr int kFenceTriesMax = 3;
constexpr absl::Duration kFenceRetry = absl::Milliseconds(100);
// How long a worker gets no closures after it could not reach a parameter server. During
// this time the server comes back or is declared lost. Without the pause, one closure after another
// would fail.
constexpr absl::Duration kHold = absl::Milliseconds(250);
constexpr char kRunClosure[] = "/cohort.proto.WorkerService/RunClosure";

bool EndsTheClosure(Outcome outcome) {
  return outcome == Outcome::kDone || outcome == Outcome::kFailed || outcome == Outcome::kExpired;
}

// Returns the error of a closure whose deadline has passed while it was in flight on the task.
absl::Status ExpiredOn(const proto::TaskRef& task, const Closure& closure) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  *detail.mutable_origin() = task;
  detail.set_closure_id(closure.id.value);
  detail.set_attempt(closure.attempt);
  return WithDetail(absl::DeadlineExceededError(absl::StrCat(
                        "closure ", closure.id.value, " was not done at its deadline: attempt ",
                        closure.attempt, " was in flight on ", TaskName(task))),
                    detail);
}

// Returns the smaller of `timeout` and the time until the deadline of the run's closure, but at
// least 1 ms.
absl::Duration UntilDeadline(const WorkerRun& run, absl::Duration timeout, absl::Time now) {
  // If the deadline has passed, the limit is 1 ms: the call then fails at once, like any call that
  // runs out of time.
  return std::min(timeout, std::max(run.closure->deadline - now, kMillisecond));
}

// Returns how long one set-up call may be silent: a quarter of `silence`, so that a few messages
// lost with their connections do not use up `silence`. A worker that reads files for longer answers
// a later call: a repeated CreateDataset joins the one that is being made.
absl::Duration SilenceOfSetUp(const UnansweredCall& call, absl::Duration silence) {
  return TimeFor(silence / 4, call.bytes);
}

}  // namespace

// Chooses the workers for the oldest queued closure: the worker with the most room or, for a gang,
// all members that are in step. Returns no worker if there is no room. A gang then stays at the
// front of the queue, so that no other closure takes a slot before it.
std::vector<int> Scheduler::WorkersForFrontLocked() {
  const absl::Time now = clock_.Now();
  const auto may = [&](int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return gangs_.IsInStep(worker) && !gangs_.IsIdle(worker);
  };
  if (options_.gang_size > 1 && queue_.Front()->gang) {
    std::vector<int> workers;
    for (const int worker : gangs_.members()) {
      if (!gangs_.IsInStep(worker)) continue;
      // A gang runs on all members that are in step or on none, so all of them must have room.
      if (!slots_.HasRoom(worker, now) || !may(worker)) return {};
      workers.push_back(worker);
    }
    // If too few members are in step, the gang waits until others are back.
    const bool are_enough = workers.size() >= static_cast<size_t>(options_.gang_min);
    return are_enough ? workers : std::vector<int>();
  }
  const int chosen = slots_.Choose(now, may);
  return chosen < 0 ? std::vector<int>() : std::vector<int>{chosen};
}

WorkerRun Scheduler::TakeFrontLocked(const std::vector<int>& workers) {
  Run run;
  run.closure = queue_.Take();
  // IsCurrentLocked compares the attempt, to tell this run from later runs of the same closure.
  run.attempt = run.closure->attempt;
  run.first_step = run.closure->steps_done;
  // The time of the closure's first run is kept, and sent with all later runs.
  if (run.closure->time == absl::InfinitePast()) run.closure->time = clock_.Now();
  if (run.closure->gang) run.gang = gangs_.Send(run.closure->id, run.num_steps(), clock_.Now());
  // A gang of several workers tells each member who the others are. A single worker has no peers.
  const bool alone = options_.gang_size <= 1 || !run.closure->gang;
  for (const int worker : workers) {
    run.members.push_back(slots_.Take(worker));
    if (alone) continue;
    proto::Peer& member = *run.gang.add_members();
    *member.mutable_task() = run.members.back().task;
    member.set_address(slots_.Find(worker)->address);
  }
  if (alone) {
    run.session = run.members.front().session;
    run.channel = run.members.front().channel;
  } else {
    run.gang.set_shared_memory(options_.shared_memory);
    if (options_.nccl_device) run.gang.set_nccl_device(*options_.nccl_device);
    run.session = gangs_.session();
    // The channel's callback holds a weak pointer, because the channel may outlive the scheduler.
    run.gang_channel = std::make_shared<GangChannel>(
        run.members,
        [weak = weak_from_this()](const std::set<int>& workers, const absl::Status& cause) {
          if (const auto self = weak.lock()) self->OutOfStep(workers, cause);
        });
    run.channel = run.gang_channel;
  }
  in_flight_[run.closure->id] = run;
  rounds_.Begin(*run.closure);
  // If any member lacks a resource, the resource is made on all members: the gang's channel always
  // calls all members together.
  for (std::string& key : ResourceCatalog::KeysFor(*run.closure)) {
    const auto is_there = [&](int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return slots_.HasResource(worker, key);
    };
    const bool there = std::all_of(workers.begin(), workers.end(), is_there);
    if (!there) run.missing.push_back(std::move(key));
  }
  return run;
}

bool Scheduler::IsCurrentLocked(const Run& run) const {
  const auto found = in_flight_.find(run.closure->id);
  return found != in_flight_.end() && found->second.attempt == run.attempt;
}

void Scheduler::FenceAndTakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause) {
  // Without `fence_worker` there is no fence to wait for, so closures are put back into the queue
  // at once.
  if (!options_.fence_worker) return TakeBack(sessions, cause);
  std::set<uint64_t> not_asked;
  {
    MutexLock lock(mutex_);
    // For sessions whose fence is under way, no second fence is requested. When the first one is
    // confirmed, the sessions' runs are taken back.
    not_asked = fences_.Add(sessions);
    for (const uint64_t session : sessions) gangs_.SetFenced(session);
  }
  if (!not_asked.empty()) AskForFence(not_asked, cause, 1);
}

void Scheduler::AskForFence(const std::set<uint64_t>& sessions, const absl::Status& cause,
                            int tries) {
  options_.fence_worker(
      sessions, [self = shared_from_this(), sessions, cause, tries](const absl::Status& fenced) {
        if (fenced.ok()) return self->TakeBack(sessions, cause);
        Log(LogLevel::kWarning, "fence_failed", {{"cause", fenced.message()}});
        // If all tries fail, a ps is lost, and with it every variable that a late push could
        // change, so the runs are taken back. One failed try does not prove that, because a single
        // message may be lost.
        if (tries == kFenceTriesMax) return self->TakeBack(sessions, cause);
        self->clock_.CallAt(self->clock_.Now() + kFenceRetry,
                            [weak = self->weak_from_this(), sessions, cause, tries] {
                              if (const auto self = weak.lock()) {
                                self->AskForFence(sessions, cause, tries + 1);
                              }
                            });
      });
}

void Scheduler::TakeBack(const std::set<uint64_t>& sessions, const absl::Status& cause) {
  Change change(*this);
  fences_.Confirm(sessions);
  // The runs to end are copied first, because EndLocked() changes `in_flight_`.
  std::vector<Run> runs;
  for (const auto& [id, run] : in_flight_) {
    // A run of a gang whose call has not ended is not taken back, because some members may have
    // made the step. The call ends by itself: every member answers or is lost.
    if (run.gang_channel != nullptr && !run.waits_for_fence) continue;
    if (sessions.count(run.session) > 0) runs.push_back(run);
  }
  for (const Run& run : runs) {
    EndLocked(run, AttributedCall(cause, run.task()), Outcome::kWorkerLost, change.effects);
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
    if (!IsCurrentLocked(run)) return;
    request = resources_.Request(*run.closure, run.missing.front(), run.worker());
  }
  // The request was made under the lock, and is sent outside the lock.
  Channel& channel = *run.channel;
  const UnansweredCall call = {
      MethodName(request.method),
      request.message.header.size() + PayloadBytes(request.message.payload)};
  const absl::Duration silence =
      UntilDeadline(run, SilenceOfSetUp(call, options_.setup_timeout), clock_.Now());
  request.message.silence = silence;
  const absl::Duration timeout = UntilDeadline(run, LongestTime(silence, call.bytes), clock_.Now());
  channel.Start(request.method, std::move(request.message), timeout,
                [self = shared_from_this(), run = std::move(run), call, silence,
                 start = clock_.Now()](const absl::StatusOr<Message>& response) mutable {
                  // A call that ran out of time was silent for all that it may be, whatever the
                  // clock says.
                  const absl::Duration lasted = absl::IsDeadlineExceeded(response.status())
                                                    ? silence
                                                    : self->clock_.Now() - start;
                  const SetUpEnd end = {call, start, start + lasted, response.status()};
                  if (!self->TakeSetUp(run, end)) return;
                  if (!response.ok()) return self->End(run, response.status());
                  run.missing.erase(run.missing.begin());
                  self->Start(std::move(run));
                });
}

bool Scheduler::TakeSetUp(const Run& run, const SetUpEnd& end) {
  MutexLock lock(mutex_);
  if (!IsCurrentLocked(run)) return false;
  if (end.status.ok()) {
    // The worker has answered the set-up call, so it can be reached.
    run.closure->record.EndSilence();
    for (const GangMember& member : run.members) slots_.AddResource(member, run.missing.front());
    return true;
  }
  if (clock_.Now() >= run.closure->deadline || !NoteSilence(run, end)) return true;
  if (run.gang_channel != nullptr) return true;
  // Another worker may answer the set-up call. So this worker gets no closures for a while.
  if (!slots_.AnotherServes(run.worker(), clock_.Now())) return true;
  PumpAtLocked(slots_.Hold(run.worker(), clock_.Now(), end.end - end.start));
  return true;
}

void Scheduler::Call(Run run) {
  ClosureId watermark;
  uint64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    if (!IsCurrentLocked(run)) return;
    // From this call on, the worker may run the closure, so the closure may change variables.
    run.closure->begun = true;
    in_flight_[run.closure->id].called = run.called = true;
    watermark = redo_.IsOn() ? redo_.Watermark(queue_.next_id()) : queue_.watermark();
    // A closure that has failed since the cut is open in the cut, and the next coordinator may run
    // it again. So while snapshots are taken, no call carries a watermark above that of the cut.
    if (snapshots_.before.has_value()) watermark = std::min(watermark, snapshots_.watermark);
    epoch = epoch_;
  }
  Channel& channel = *run.channel;
  // A run gets the time limit closure_timeout for each of its steps.
  const absl::Duration of_steps = options_.closure_timeout * static_cast<double>(run.num_steps());
  const absl::Duration timeout = UntilDeadline(run, of_steps, clock_.Now());
  Envelope<proto::RunClosureRequest> request = MakeRunRequest(run, epoch, watermark);
  request.header.set_session(run.session);
  if (run.closure->gang) *request.header.mutable_gang() = run.gang;
  request.header.set_timeout_ms(absl::ToInt64Milliseconds(absl::Ceil(timeout, kMillisecond)));
  StartCall<proto::RunClosureResponse>(
      channel, kRunClosure, std::move(request), timeout,
      [self = shared_from_this(),
       run = std::move(run)](absl::StatusOr<Envelope<proto::RunClosureResponse>> response) {
        self->End(run, std::move(response));
      });
}

void Scheduler::End(const Run& run, absl::StatusOr<Envelope<proto::RunClosureResponse>> response) {
  // Steps before a failed step are done. They are counted here, and a later run does not repeat
  // them.
  PartOfSteps part = TakePart(run, response);
  const absl::Status as_it_came = response.status();
  Outcome outcome = ClassifyOutcome(as_it_came);
  absl::Status status = AttributedCall(as_it_came, run.task());
  if (outcome != Outcome::kDone && outcome != Outcome::kFailed &&
      clock_.Now() >= run.closure->deadline) {
    outcome = Outcome::kExpired;
    status = ExpiredOn(run.task(), *run.closure);
  }
  if (!response.ok()) response = status;
  FetchedTensors fetched_before;
  Effects suspicions;
  {
    MutexLock lock(mutex_);
    if (!IsCurrentLocked(run)) return;  // the run was taken back, so its answer no longer counts
    fetched_before = run.closure->fetched;
    if (part.steps > 0) {
      run.closure->TakeSteps(part.steps, std::move(part.fetched));
      gangs_.Advance();
    }
    // The error is recorded before the closure's result is set. Otherwise closures that take this
    // result would fail with errors of their own first. As long as this closure is in flight, no
    // call observes the error.
    if (outcome == Outcome::kFailed || outcome == Outcome::kExpired) queue_.RecordError(status);
    if (outcome == Outcome::kWorkerLost) {
      Run& lost = in_flight_[run.closure->id];
      lost.waits_for_fence = true;
      if (NoteLoss(lost, as_it_came)) queue_.Strike(lost.closure->id);
      SuspectLocked(run, status, suspicions);
    }
  }
  if (outcome == Outcome::kWorkerLost && options_.fence_worker) {
    for (auto& suspicion : suspicions) suspicion();
    // The worker may still push for this run, so the closure is queued again only after a fence.
    return FenceAndTakeBack({run.session}, status);
  }
  if (EndsTheClosure(outcome)) {
    // The result is set before the closure ends in the queue. So when a Join ends, all results are
    // set.
    if (const auto result = run.closure->result.lock()) {
      if (response.ok()) {
        result->Set(JoinFetches(std::move(fetched_before), std::move(part.fetched)));
      } else {
        result->Set(status);
      }
    }
  }
  Change change(*this);
  if (!IsCurrentLocked(run)) return change.IsNone();
  change.effects = std::move(suspicions);
  if (response.ok()) {
    AddTimes(response->header.times(), stats_.times);
    run.closure->round_applied = response->header.round_applied();
    resources_.TakePositions(run.worker(), response->header, *run.closure);
  }
  EndLocked(run, status, outcome, change.effects);
}

void Scheduler::EndLocked(const Run& run, const absl::Status& status, Outcome outcome,
                          Effects& effects) {
  slots_.Return(run.members);
  const ClosureId id = run.closure->id;
  in_flight_.erase(id);
  gangs_.End(id, outcome == Outcome::kDone, clock_.Now());
  // A pause after failed generations of gangs ends at a certain time. A timer calls Pump then, so
  // that the next gang is sent.
  if (gangs_.not_before() > clock_.Now()) PumpAtLocked(gangs_.not_before());
  // The worker may still push for this closure, although the scheduler has given up the run.
  if (outcome == Outcome::kWorkerLost || outcome == Outcome::kExpired) {
    fences_.Need();
  }
  if (outcome == Outcome::kDone) {
    for (const GangMember& member : run.members) slots_.CountDone(member.worker);
    if (run.closure->round.number == 0) return MarkDoneLocked(*run.closure);
    // A closure that belongs to a round is done only when enough closures of its round are
    // answered.
    for (const auto& done : rounds_.Answer(run.closure)) MarkDoneLocked(*done);
    return;
  }
  if (EndsTheClosure(outcome)) {
    ++stats_.failed;
    DropLocked(id);
    return queue_.MarkFailed(id, status);
  }
  if (outcome == Outcome::kPsLost) {
    const absl::Time until = clock_.Now() + kHold;
    for (const GangMember& member : run.members) slots_.HoldUntil(member.worker, until);
    PumpAtLocked(until);
    if (options_.on_ps_suspect) {
      effects.push_back([self = shared_from_this(), ps = DetailOf(status).origin().index()] {
        self->options_.on_ps_suspect(ps);
      });
    }
  }
  if (outcome == Outcome::kForgotten) {
    // The worker has refused the closure because it lacked a resource, so the closure has not
    // begun.
    run.closure->begun = false;
    for (const GangMember& member : run.members) slots_.ForgetResources(member);
  }
  if (outcome == Outcome::kWorkerLost) SuspectLocked(run, status, effects);
  // The closure goes back into the queue first. If it has reached one of its limits (GiveUp), it
  // fails there.
  queue_.PutBack(id);
  const GiveUpRule rule = {options_.attempts_max, options_.setup_timeout, queue_.watermark() < id};
  if (const absl::Status error = GiveUp(run, status, outcome, rule); !error.ok()) {
    queue_.RecordError(error);
    return FailQueuedLocked(id, error, effects);
  }
  if (QuarantineLocked(*run.closure, run.attempt, effects)) return;
  ++stats_.put_back;
  Log(LogLevel::kInfo, "closure_put_back",
      {{"closure", id.value},
       {"attempt", run.closure->attempt},
       {"task", TaskName(run.task())},
       {"cause", status.message()}});
}

void Scheduler::SuspectLocked(const Run& run, const absl::Status& status, Effects& effects) {
  const GangMember* const at_fault = run.AtFault(status);
  // If the error names a member of the gang as its origin, the other members are not suspected.
  for (const GangMember& member : run.members) {
    if (at_fault != nullptr && at_fault != &member) continue;
    const bool in_group = run.gang_channel != nullptr && at_fault != nullptr;
    if (in_group && gangs_.IsAlive(member.worker)) continue;
    // If the gang's channel reports a member as lost only because another member says so, the
    // member is not suspected.
    if (in_group && run.called && ClassOf(status) == proto::WORKER_LOST &&
        run.gang_channel->Broken().count(member.worker) == 0) {
      continue;
    }
    // If the scheduler itself has fenced the gang's generation, a member that refuses pushes with
    // STALE is not to blame.
    if (in_group && ClassOf(status) == proto::STALE && gangs_.IsFenced(run.session)) continue;
    // If the worker was lost and came back since this call began, the call says nothing about its
    // present process.
    if (!slots_.Serves(member)) continue;
    // Until WorkerReady is called again, the worker gets no closures.
    slots_.Detach(member.worker);
    if (!options_.on_suspect) continue;
    effects.push_back([self = shared_from_this(), worker = member.worker,
                       incarnation = member.task.incarnation()] {
      self->options_.on_suspect(worker, incarnation);
    });
  }
}

void Scheduler::SetApart(const WorkersApart& apart) {
  {
    Change change(*this);
    gangs_.SetApart(apart);
  }
  // Members that are left out leave the group, so that the remaining members can continue.
  if (apart.left_out.empty()) return;
  OutOfStep(apart.left_out,
            MakeError(absl::StatusCode::kUnavailable,
                      "it and others of its group do not reach each other: they go on without it",
                      proto::TRANSIENT));
}

void Scheduler::OutOfStep(const std::set<int>& workers, const absl::Status& cause) {
  std::vector<std::pair<std::shared_ptr<GangChannel>, int>> others;
  std::set<uint64_t> fencing;
  {
    Change change(*this);
    std::map<int, uint64_t> newly;
    // Workers that are already out of step were reported before, and are not reported again.
    for (const int worker : workers) {
      if (gangs_.IsInStep(worker)) newly[worker] = gangs_.session();
    }
    if (newly.empty()) return change.IsNone();
    // Gangs in flight must not wait for answers of workers that are now out of step.
    for (const auto& [id, run] : in_flight_) {
      for (const auto& [worker, session] : newly) {
        if (run.gang_channel == nullptr || !run.Involves(worker)) continue;
        others.emplace_back(run.gang_channel, worker);
      }
    }
    OutOfStepLocked(newly, cause, change.effects);
    fencing = fences_.sessions();
  }
  // A worker that is out of step is not a home of variables, so no fence may wait for its answer.
  // Fences under way are therefore requested again, from the remaining homes.
  if (!fencing.empty()) AskForFence(fencing, cause, 1);
  for (const auto& [gang, worker] : others) gang->Lose(worker, cause);
}

void Scheduler::OutOfStepLocked(const std::map<int, uint64_t>& workers, const absl::Status& cause,
                                Effects& effects) {
  for (const auto& [worker, session] : workers) gangs_.OutOfStep(worker);
  if (!options_.on_out_of_step) return;
  effects.push_back([self = shared_from_this(), workers, cause] {
    self->options_.on_out_of_step(workers, cause);
  });
}

void Scheduler::InStep(int worker, uint64_t incarnation) {
  Change change(*this);
  if (gangs_.members().count(worker) == 0)
    return change.IsNone();  // the worker was removed before this call
  const WorkerSlots* const slots = slots_.Find(worker);
  const bool serves = slots != nullptr && slots->ready &&
                      (incarnation == 0 || slots->task.incarnation() == incarnation);
  // A worker that does not serve stays out of step, because its copy was lost. During a pause it
  // may be in step, because the restore after the pause puts back all copies of the variables.
  gangs_.InStep(worker);
  if (!serves && paused_.empty()) {
    OutOfStepLocked({{worker, 0}}, absl::UnavailableError("it was lost when it had got its copy"),
                    change.effects);
  }
}

void Scheduler::JoinGangs(int worker) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  if (options_.gang_size > 1) gangs_.Join(worker);
}

void Scheduler::HoldGangs(Done held) {
  Change change(*this);
  gangs_.Hold(std::move(held));
}

void Scheduler::ReleaseGangs() {
  Change change(*this);
  gangs_.Release();
}

void Scheduler::RemoveWorker(int worker, absl::AnyInvocable<void()> drained) {
  Change change(*this);
  slots_.Remove(worker, std::move(drained));
  gangs_.Leave(worker);
}

}  // namespace cohort
