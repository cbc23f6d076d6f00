#pragma once

// The plan of a job before its cluster is there: which variables it has follows from the job file
// alone, if the file says enough about its data.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Makes the plan. Errors: INVALID_ARGUMENT for a job that no cluster could run, and for data whose
// shape only the workers that open it know, if the model does not say it either.
absl::StatusOr<Plan> MakeOfflinePlan(const JobSpec& job, const ClusterShape& cluster);

// Finds what would end the job, however long it had trained by then, as far as job file and cluster
// tell. `memory_bytes` is that of the one machine that runs all tasks; none: each has its own. What
// only the data themselves can tell, such as whether files hold what the model declares, is left to
// the workers; of a model that declares nothing, what its optimizer and metrics need is checked.
// Errors: those of MakeOfflinePlan, CheckTestBatch, TrainingExamples, CheckMemory and
// PlanOnnxExport.
absl::Status CheckJob(const JobSpec& job, const ClusterShape& cluster,
                      std::optional<uint64_t> memory_bytes);

}  // namespace cohort
