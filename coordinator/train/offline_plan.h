#pragma once

// The plan of a job before its cluster exists, made from the job file alone. The plan needs the
// type of the batches, from which the variables' shapes follow. For generated data and for MNIST,
// the job file determines this type. For other files, only the workers that open them know the
// type. But a model that declares its inputs can train on only one type, so an error with a batch
// of this type is an error of the job, whatever the files hold.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Returns the plan of a job on a cluster. Errors: INVALID_ARGUMENT for a job that no cluster could
// run, and for data whose shape neither the job file nor the model says, because only the workers
// that open the data know the shape.
absl::StatusOr<Plan> MakeOfflinePlan(const JobSpec& job, const ClusterShape& cluster);

// Finds errors that would end the job after some training, as far as the job file and the cluster
// show them. `memory_bytes` is the memory of the one machine that runs all tasks; if it is absent,
// each task has its own machine. Errors that only the data can show, for example files that do not
// hold what the model declares, are left to the workers. If the model declares no inputs and the
// data's shape is unknown, only the needs of the optimizer, the metrics and the exports are
// checked. Errors: those of MakeOfflinePlan, CheckTestBatch, TrainingExamples, CheckMemory and
// CheckExports.
absl::Status CheckJob(const JobSpec& job, const ClusterShape& cluster,
                      std::optional<uint64_t> memory_bytes);

}  // namespace cohort
