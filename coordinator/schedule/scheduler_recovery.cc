// The part of Scheduler that pauses and resumes around a restore, and begins the cuts of
// checkpoints.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/invariants.h"
#include "common/base/log.h"
#include "common/wire/error_detail.h"
#include "coordinator/schedule/gang_channel.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {

// Returns whether the closure's program changes variables. If so, a restore may take the closure's
// effect back.
bool ChangesVariables(const Closure& closure) {
  const auto& outputs = closure.program->request.program().outputs();
  return std::any_of(outputs.begin(), outputs.end(), [](const proto::OutputBinding& output) {
    return output.has_push() || output.has_assign();
  });
}

}  // namespace

void Scheduler::MarkDoneLocked(Closure& closure) {
  ++(queue_.IsReplay(closure.id) ? stats_.replayed : stats_.done);
  EndTimerLocked(closure.id);
  // A closure that changes no variables is not needed again after a restore, so the redo log drops
  // it.
  if (ChangesVariables(closure)) {
    redo_.MarkDone(closure.id);
    snapshots_.done_since += closure.num_steps();
  } else {
    redo_.Drop(closure.id);
  }
  queue_.MarkDone(closure.id);
}

void Scheduler::AskForCheckpointLocked(Effects& effects) {
  if (options_.checkpoint_every == 0 || snapshots_.asked) return;
  if (snapshots_.done_since < options_.checkpoint_every) return;
  snapshots_.asked = true;
  if (options_.on_checkpoint_due) effects.push_back(options_.on_checkpoint_due);
}

void Scheduler::PumpAtLocked(absl::Time when) {
  // The timer holds a weak pointer to the scheduler, because it may outlive the scheduler.
  clock_.CallAt(when, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) Change change(*self);
  });
}

void Scheduler::Close(const absl::Status& error) {
  Change change(*this);
  if (!closed_.ok()) return change.IsNone();
  closed_ = error;
  queue_.RecordError(error);
  TakeBackLocked();
  fences_.Forget();  // the job's next coordinator has another epoch, which refuses late pushes
  // A closed scheduler runs no closures, so replays are dropped.
  for (const std::shared_ptr<Closure>& replay : redo_.TakeDone()) redo_.Drop(replay->id);
  queue_.ForgetReplays();
}

void Scheduler::TakeBackLocked() {
  // All workers have to attach again in the next epoch, and then get new slots.
  slots_.Clear();
  for (const auto& [id, run] : in_flight_) {
    queue_.PutBack(id);
    // The gang's channel is told to ignore late answers. In the next epoch they would mark workers
    // as out of step that are members of a new gang.
    if (run.gang_channel != nullptr) run.gang_channel->Retire();
  }
  in_flight_.clear();
  gangs_.TakeBack();
  // A restore also takes back the effects of the steps that a closure has done so far.
  queue_.ForgetSteps();
  for (const auto& closure : rounds_.TakeAnswered()) queue_.PutBack(closure->id);
  rounds_.Forget();
  rounds_.Release();
}

void Scheduler::Pause(absl::string_view why) {
  Change change(*this);
  paused_ = std::string(why);
  // A closure that must not run a second time cannot be put back into the queue, so it fails here.
  std::vector<Run> lost;
  for (const auto& [id, run] : in_flight_) {
    if (run.closure->begun && !run.closure->replayable) lost.push_back(run);
  }
  for (const Run& run : lost) {
    const absl::Status error = LostForGood(*run.closure, why);
    EndLocked(run, error, Outcome::kFailed, change.effects);
    change.effects.push_back([closure = run.closure, error] {
      if (const auto result = closure->result.lock()) result->Set(error);
    });
  }
  EndLostLocked(why, change.effects);
  snapshots_.before.reset();  // the checkpoint under way will not be committed
  TakeBackLocked();
}

// Ends the runs of workers that are lost, with an error that names their worker. Without this, such
// runs would count as lost with the home of variables because of which the scheduler pauses.
void Scheduler::EndLostLocked(absl::string_view why, Effects& effects) {
  std::vector<std::pair<Run, proto::TaskRef>> lost;
  const auto is_away = [&](const GangMember& member)
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !slots_.Serves(member); };
  for (const auto& [id, run] : in_flight_) {
    const auto away = std::find_if(run.members.begin(), run.members.end(), is_away);
    if (away != run.members.end()) {
      lost.emplace_back(run, away->task);
    } else if (fences_.IsFencing(run.session)) {
      // The fence of the run's session is not confirmed yet, so the worker was lost, even if it
      // serves again.
      lost.emplace_back(run, run.task());
    }
  }
  const absl::Status cause = absl::UnavailableError(why);
  for (const auto& [run, task] : lost) {
    EndLocked(run, AttributedCall(cause, task), Outcome::kWorkerLost, effects);
  }
}

void Scheduler::Resume(uint64_t epoch) {
  Change change(*this);
  paused_.clear();
  gangs_.AllInStep();  // the restore has put back every copy of the variables
  epoch_ = epoch;
  resources_.SetEpoch(epoch);
  fences_.Forget();  // late pushes are of an older epoch, which is refused anyway
  ++stats_.recoveries;
  snapshots_.done_since = 0;
  if (closed_.ok()) {
    for (const std::shared_ptr<Closure>& closure : redo_.TakeDone()) {
      if (!closure->replayable) {
        redo_.Drop(closure->id);
        queue_.RecordError(LostForGood(*closure, "its effect was taken back by a restore"));
        continue;
      }
      // The replay reads the same element that the closure read when it was done.
      if (closure->taken.has_value()) closure->input = *closure->taken;
      // The first run of the closure was done before the deadline. So the replay must not fail
      // because the deadline has passed.
      closure->deadline = absl::InfiniteFuture();
      queue_.PutAgain(closure);
    }
  }
  Log(LogLevel::kInfo, "resumed",
      {{"epoch", epoch}, {"replays", queue_.replays()}, {"queued", queue_.queued()}});
}

Cut Scheduler::BeginCut() const {
  MutexLock lock(mutex_);
  Cut cut = redo_.BeginCut(queue_.next_id());
  // Without a redo log, it is not known which closures are open. The queue's watermark covers only
  // closures that have ended.
  if (!redo_.IsOn()) cut.watermark = queue_.watermark();
  return cut;
}

std::optional<absl::Status> Scheduler::HoldRounds(Done ready) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  rounds_.Hold(std::move(ready));
  // HoldRounds returns a status at once if no round may be half applied, or if an error has broken
  // a round off.
  if (rounds_.TakeReady(IsRoundBrokenLocked()) == nullptr) return std::nullopt;
  return rounds_.HoldStatus();
}

Cut Scheduler::BeginSnapshots(RecordCut record) {
  Cut cut;
  {
    MutexLock lock(mutex_);
    snapshots_.before = queue_.next_id();
    snapshots_.done_since = 0;
    snapshots_.asked = false;
    cut = redo_.BeginCut(queue_.next_id());
    snapshots_.watermark = cut.watermark;
    snapshots_.recording = true;
  }
  record(cut);
  // While `record` ran, no Join could end. The destructor of Change ends those whose closures are
  // done.
  Change change(*this);
  snapshots_.recording = false;
  return cut;
}

void Scheduler::EndSnapshots() {
  Change change(*this);
  snapshots_.before.reset();
  // If the checkpoint failed before its snapshots, the next one is due after as many steps as
  // usual.
  if (std::exchange(snapshots_.asked, false)) snapshots_.done_since = 0;
  rounds_.Release();
}

void Scheduler::CommitCut(const Cut& cut) {
  Change change(*this);
  redo_.CommitCut(cut);
  ++stats_.checkpoints;
}

bool Scheduler::IsHeldByRedoLog() const {
  MutexLock lock(mutex_);
  return !redo_.HasRoom() && waiting_.HasSchedule();
}

void Scheduler::Drain(Done idle) {
  Change change(*this);
  drain_ = std::move(idle);
}

void Scheduler::EndDrain() {
  Change change(*this);
  drain_.reset();
}

bool Scheduler::IsDrainedLocked() const {
  // If a round under way needs the closure, the closure may begin: otherwise the round would never
  // be applied.
  const Closure* const front = queue_.Front();
  return drain_.has_value() && (front == nullptr || !rounds_.IsUnderWay(*front));
}

void Scheduler::WhenStable(Done done) {
  Change change(*this);
  stable_waits_.push_back(std::move(done));
}

void Scheduler::FinishStableWaitsLocked(Effects& effects) {
  if (closed_.ok() && (!paused_.empty() || queue_.replays() > 0)) return;
  for (Done& done : std::exchange(stable_waits_, {})) {
    effects.push_back([done = std::move(done), closed = closed_]() mutable { done(closed); });
  }
}

void Scheduler::SetEpoch(uint64_t epoch) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  epoch_ = epoch;
  resources_.SetEpoch(epoch);
}

ClosureId Scheduler::NextId() const {
  MutexLock lock(mutex_);
  return queue_.next_id();
}

void Scheduler::SkipTo(ClosureId next) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  queue_.SkipTo(next);
}

}  // namespace cohort
