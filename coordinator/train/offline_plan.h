#pragma once

// The plan of a job without its cluster: which variables it has follows from the job file alone,
// where the file says enough about its data.

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for a job that no cluster could run, and for data whose shape only the
// workers that open it know, where the model does not say it either.
absl::StatusOr<Plan> MakeOfflinePlan(const JobSpec& job, const ClusterShape& cluster);

}  // namespace cohort
