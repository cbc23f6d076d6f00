// What happens to closures before they are in flight: results of others that they take as arguments
// arrive, or their deadline comes.

#include <utility>

#include "absl/strings/str_cat.h"
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
      return WithDetail(Annotate(result.status(), absl::StrCat("an argument of closure ",
                                                               closure.id.value)),
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
      FailQueuedLocked(id, resolved, effects);
    }
    Pump(effects);
  }
  RunAll(effects);
}

void Scheduler::FailQueuedLocked(ClosureId id, const absl::Status& error, Effects& effects) {
  const std::shared_ptr<Closure> closure = queue_.RemoveQueued(id);
  ++stats_.failed;
  redo_.Drop(id);
  queue_.RecordError(error);
  effects.push_back([closure, error] {
    if (const auto result = closure->result.lock()) result->Set(error);
  });
}

// Only before it is in flight: a call for it ends by itself at the deadline.
void Scheduler::Expire(ClosureId id) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    timers_.erase(id);
    const Closure* const closure = queue_.FindQueued(id);
    if (closure == nullptr) return;
    const absl::Status error = MakeError(
        absl::StatusCode::kDeadlineExceeded,
        absl::StrCat("closure ", id.value, " was still queued at its deadline, after ",
                     closure->attempt, " attempts: ",
                     closure->inputs_left > 0 ? "an argument was not there yet"
                                              : "no worker had room for it"),
        proto::APPLICATION);
    FailQueuedLocked(id, error, effects);
    Pump(effects);
  }
  RunAll(effects);
}

}  // namespace cohort
