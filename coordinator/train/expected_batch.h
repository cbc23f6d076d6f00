#pragma once

// The type of a job's training batches, before any worker has opened the data. For generated data
// and for MNIST, the job file determines the type. The type of other files is known only to the
// workers that open them. But a job whose model declares its inputs can train on only one type, so
// an error with a batch of that type is an error of the job, whatever its files hold.

#include <cstddef>

#include "absl/status/statusor.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns whether the job file alone determines the type of the examples of `source`.
bool TypeIsKnown(const DataSourceSpec& source);

// Returns the number of components of an example of `source`.
size_t NumComponents(const DataSourceSpec& source);

// Returns whether ExpectedBatch() can tell the shapes, because the data source has fixed shapes or
// the model declares them.
bool ShapesAreKnown(const JobSpec& job);

// Returns the type of a batch of `source` after the job's pipeline. Requires TypeIsKnown().
absl::StatusOr<proto::ElementSpec> KnownBatch(const JobSpec& job, const DataSourceSpec& source);

// Returns the type of a batch of training data after the pipeline. Errors: INVALID_ARGUMENT unless
// ShapesAreKnown(), or if the pipeline cannot transform data that the model takes.
absl::StatusOr<proto::ElementSpec> ExpectedBatch(const JobSpec& job);

}  // namespace cohort
