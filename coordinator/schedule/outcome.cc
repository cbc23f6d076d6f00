#include "coordinator/schedule/outcome.h"

#include "common/wire/error_detail.h"

namespace cohort {

Outcome ClassifyOutcome(const absl::Status& status) {
  if (status.ok()) return Outcome::kDone;
  switch (ClassOf(status)) {
    case proto::WORKER_LOST:
      return Outcome::kWorkerLost;
    case proto::TRANSIENT:
      // NOT_FOUND means that the worker no longer knows the program, the data set or the iterator
      // of the closure.
      return absl::IsNotFound(status) ? Outcome::kForgotten : Outcome::kTransient;
    case proto::PS_LOST:
      return Outcome::kPsLost;
    case proto::STALE:
      // A parameter server answers STALE after a restart, when no coordinator has told it an epoch
      // yet.
      if (DetailOf(status).origin().role() == "ps") return Outcome::kPsLost;
      // The worker answers STALE if it belongs to another epoch, or if the call arrived before the
      // worker's Attach. In both cases the worker is attached again.
      return Outcome::kWorkerLost;
    case proto::ERROR_CLASS_UNKNOWN:
      // An error without ErrorDetail comes from the transport and not from the worker.
      if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsCancelled(status)) {
        return Outcome::kWorkerLost;
      }
      return Outcome::kFailed;
    default:
      return Outcome::kFailed;
  }
}

absl::Status ErrorOf(const proto::StepFailure& failure) {
  const absl::Status error(static_cast<absl::StatusCode>(failure.code()), failure.message());
  // If the worker sent code OK for a step that failed, the code becomes UNKNOWN: a failed step must
  // not look like success.
  return WithDetail(error.ok() ? absl::UnknownError("a step has failed") : error, failure.detail());
}

}  // namespace cohort
