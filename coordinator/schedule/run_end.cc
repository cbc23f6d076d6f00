#include "coordinator/schedule/run_end.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/malformed.h"
#include "coordinator/schedule/gang_channel.h"

namespace cohort {

bool NoteLoss(const WorkerRun& run, const absl::Status& cause) {
  AttemptRecord& record = run.closure->record;
  // A process that ends while it receives programs and data does not end because of the closure.
  if (!run.called) return false;
  std::set<int> unanswered;
  // A gang knows which members did not answer; a single worker's error without a detail comes from
  // the transport.
  if (run.gang_channel != nullptr) {
    unanswered = run.gang_channel->Unanswered();
  } else if (ClassOf(cause) == proto::ERROR_CLASS_UNKNOWN) {
    unanswered = {run.worker()};
  }
  for (const int worker : unanswered) {
    record.AddUnanswered(run.attempt, run.Member(worker)->task, cause);
  }
  return !unanswered.empty();
}

bool NoteSilence(const WorkerRun& run, const SetUpEnd& end) {
  // If the path loses large packets, the connection may break before the call runs out of time, so
  // UNAVAILABLE counts as silence too.
  const bool silent = (absl::IsDeadlineExceeded(end.status) || absl::IsUnavailable(end.status)) &&
                      ClassifyOutcome(end.status) == Outcome::kWorkerLost;
  if (!silent) return false;
  AttemptRecord& record = run.closure->record;
  const absl::Duration silent_for = record.silent_for() + end.lasted;
  record.AddSilence(silent_for,
                    UnansweredError(end.call, silent_for, AttributedCall(end.status, run.task())));
  return true;
}

absl::Status GiveUp(const WorkerRun& run, const absl::Status& status, Outcome outcome,
                    const GiveUpRule& rule) {
  Closure& closure = *run.closure;
  AttemptRecord& record = closure.record;
  if (closure.begun && !closure.replayable) return LostForGood(closure, status.message());
  if (const absl::Status silence = record.Silence(rule.silence_max); !silence.ok()) {
    return Annotate(silence, absl::StrCat("closure ", closure.id.value));
  }
  if (IsMalformed(status)) {
    const uint32_t malformed = record.AddMalformed();
    // Unreadable messages have a limit of their own: the closure may not have run at all.
    if (malformed < AttemptRecord::kMalformedMax) return absl::OkStatus();
    return Annotate(status, absl::StrCat("closure ", closure.id.value, ": ", malformed,
                                         " messages about it could not be read, the last time"));
  }
  // Only the answer of a worker that ran the closure counts as a fault. All members of a gang may
  // answer that they do not reach one another, which is a fault too. A gang that was refused only
  // because an older gang failed has no fault.
  const bool apart = outcome == Outcome::kWorkerLost && run.gang_channel != nullptr &&
                     ClassOf(status) == proto::WORKER_LOST && !record.HasUnanswered(run.attempt);
  const bool refused = outcome == Outcome::kTransient && closure.gang && rule.behind;
  const bool ran = outcome == Outcome::kTransient || outcome == Outcome::kForgotten || apart;
  if (!ran || refused) return absl::OkStatus();
  const uint32_t faults = record.AddFault();
  if (faults < rule.attempts_max) return absl::OkStatus();
  return Annotate(status, absl::StrCat("closure ", closure.id.value, " failed ", faults,
                                       " times, the last time"));
}

}  // namespace cohort
