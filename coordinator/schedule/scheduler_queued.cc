// Closures before they are in flight: results of others that they take as arguments arrive, their
// deadline comes, or they turn out to end worker processes.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {

// Puts the tensors of results in their place. Errors: that of the first result without tensors, as
// class INPUT.
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
    effects.push_back([weak = weak_from_this(), value = *value, id = closure->id] {
      value.state().OnReady([weak, id](const absl::StatusOr<FetchedTensors>&) {
        if (const auto self = weak.lock()) self->OnInput(id);
      });
    });
  }
}

void Scheduler::OnInput(ClosureId id) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    Closure* const closure = queue_.FindWaiting(id);
    if (closure == nullptr || --closure->inputs_left > 0) return;
    const absl::Status resolved = Resolve(*closure);
    if (resolved.ok()) {
      queue_.MakeReady(id);
    } else {
      queue_.RecordError(resolved);
      FailQueuedLocked(id, resolved, effects);
    }
    Pump(effects);
  }
  RunAll(effects);
}

// The caller records the error, if it is one of the queue.
void Scheduler::FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects) {
  const std::shared_ptr<Closure> closure = queue_.RemoveQueued(id);
  ++stats_.failed;
  DropLocked(id);
  effects.push_back([closure, error] {
    if (const auto result = closure->result.lock()) result->Set(error);
  });
}

bool Scheduler::QuarantineLocked(const Closure& closure, uint32_t ends_now, Effects& effects) {
  if (in_flight_.count(closure.id) > 0) return false;  // it may end well
  const bool only_worker = done_on_.size() <= 1;
  if (!closure.record.IsPoison(options_.quarantine_after, only_worker, ends_now)) return false;
  const std::string casualties = closure.record.Casualties(ends_now);
  ++stats_.quarantined;
  Log(LogLevel::kError, "closure_quarantined",
      {{"closure", closure.id.value}, {"causes", casualties}});
  const absl::Status error = absl::UnavailableError(
      absl::StrCat("closure ", closure.id.value, " is quarantined: ", casualties));
  // A round has to have as many as it waits for.
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

// Expires a closure before it is in flight: a call for it ends by itself at the deadline.
void Scheduler::Expire(ClosureId id) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    timers_.erase(id);
    const Closure* const closure = queue_.FindQueued(id);
    if (closure == nullptr) return;
    const absl::Status error =
        MakeError(absl::StatusCode::kDeadlineExceeded,
                  absl::StrCat("closure ", id.value, " was still queued at its deadline, after ",
                               closure->attempt, " attempts: ",
                               closure->inputs_left > 0 ? "an argument was not there yet"
                                                        : "no worker had room for it"),
                  proto::APPLICATION);
    queue_.RecordError(error);
    FailQueuedLocked(id, error, effects);
    Pump(effects);
  }
  RunAll(effects);
}

}  // namespace cohort
