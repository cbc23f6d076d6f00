// Closures before they are in flight: the results that they take as arguments arrive, their
// deadline comes, or they turn out to end worker processes.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {

// Replaces results among the arguments by their tensors. Errors: the error of the first result
// without tensors, with class INPUT.
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
      // The class INPUT says that the closure itself is not at fault.
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

void Scheduler::WatchInputs(const std::shared_ptr<Closure>& closure, Effects& effects) {
  for (const Argument& argument : closure->arguments) {
    const auto* value = std::get_if<RemoteValue>(&argument);
    if (value == nullptr) continue;
    // Watched outside the lock: a result that is ready runs its callback at once.
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
  // The last missing result decides; a closure that was cancelled meanwhile does not wait any
  // more.
  if (closure == nullptr || --closure->inputs_left > 0) return change.IsNone();
  const absl::Status resolved = Resolve(*closure);
  if (resolved.ok()) {
    queue_.MakeReady(id);
  } else {
    queue_.RecordError(resolved);
    FailQueuedLocked(id, resolved, change.effects);
  }
}

// Ends a queued closure with an error. The caller records the error, if it is an error of the
// queue.
void Scheduler::FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects) {
  const std::shared_ptr<Closure> closure = queue_.RemoveQueued(id);
  ++stats_.failed;
  DropLocked(id);
  effects.push_back([closure, error] {
    if (const auto result = closure->result.lock()) result->Set(error);
  });
}

bool Scheduler::QuarantineLocked(const Closure& closure, uint32_t ends_now, Effects& effects) {
  if (in_flight_.count(closure.id) > 0) return false;  // the closure's attempt may end well
  // A single worker cannot be compared with another one, so its crashes alone count.
  const bool only_worker = slots_.known() <= 1;
  if (!closure.record.IsPoison(options_.quarantine_after, only_worker, ends_now)) return false;
  const std::string casualties = closure.record.Casualties(ends_now);
  ++stats_.quarantined;
  Log(LogLevel::kError, "closure_quarantined",
      {{"closure", closure.id.value}, {"causes", casualties}});
  const absl::Status error = absl::UnavailableError(
      absl::StrCat("closure ", closure.id.value, " is quarantined: ", casualties));
  // A round needs all of its closures, so none of them may be skipped.
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

// Ends a closure whose deadline has come before the closure is in flight. A call for the closure
// ends at the deadline by itself.
void Scheduler::Expire(ClosureId id) {
  Change change(*this);
  timers_.erase(id);
  const Closure* const closure = queue_.FindQueued(id);
  // A closure that is in flight or has ended does not expire here.
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

}  // namespace cohort
