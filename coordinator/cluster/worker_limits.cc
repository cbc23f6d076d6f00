#include "coordinator/cluster/worker_limits.h"

#include "absl/strings/str_cat.h"

namespace cohort {

absl::Status WorkerLimits::CheckHasRoom(size_t workers) const {
  if (workers < static_cast<size_t>(max)) return absl::OkStatus();
  const std::string has = absl::StrCat("the job has ", workers, " workers and ");
  if (max_of_strategy.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(has, "cluster.max_workers is ", max));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(has, "strategy.type ", max_of_strategy, " trains on at most the ", max,
                   " that it began with, whatever cluster.max_workers is: remove one first, or "
                   "start the job again with more"));
}

}  // namespace cohort
