#pragma once

// Limits of the number of a job's workers: the job file's cluster.min_workers and
// cluster.max_workers, or what the strategy can use.

#include <cstddef>
#include <limits>
#include <string>

#include "absl/status/status.h"

namespace cohort {

// The limits within which the number of a job's workers may change.
struct WorkerLimits {
  int min = 1;
  int max = std::numeric_limits<int>::max();
  // The strategy.type because of which `max` is limited. If empty, cluster.max_workers is the
  // reason.
  std::string max_of_strategy = {};
  // Checks that a job with `workers` workers may have one more. Errors: FAILED_PRECONDITION naming
  // the limit and its reason.
  absl::Status CheckHasRoom(size_t workers) const;
};

}  // namespace cohort
