#pragma once

// The plan of a job before its cluster exists. The job file alone determines the variables, if it
// says enough about its data. For generated data and for MNIST, the job file determines the type of
// the batches. The type of other files is known only to the workers that open them. But a job whose
// model declares its inputs can train on only one type, so an error with a batch of that type is an
// error of the job, whatever its files hold.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Makes the plan. Errors: INVALID_ARGUMENT for a job that no cluster could run, and for data whose
// shape neither the job file nor the model says, because only the workers that open the data know
// the shape.
absl::StatusOr<Plan> MakeOfflinePlan(const JobSpec& job, const ClusterShape& cluster);

// Finds errors that would end the job after any amount of training, as far as the job file and the
// cluster show them. `memory_bytes` is the memory of the one machine that runs all tasks; if it is
// absent, each task has its own machine. Errors that only the data can show, for example files that
// do not hold what the model declares, are left to the workers. For a model that declares no
// inputs, the needs of its optimizer and metrics are checked. Errors: those of MakeOfflinePlan,
// CheckTestBatch, TrainingExamples, CheckMemory and PlanOnnxExport.
absl::Status CheckJob(const JobSpec& job, const ClusterShape& cluster,
                      std::optional<uint64_t> memory_bytes);

}  // namespace cohort
