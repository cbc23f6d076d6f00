#pragma once

// The type of a job's training batches, before anybody has opened its data. For data that the
// program makes, and for MNIST, the job file says all of it. The type of files is known only to the
// workers that open them; but a job whose model declares its inputs can train on one type alone, so
// that whatever is wrong with a batch of that type is wrong with the job, whichever files it has.

#include <cstddef>

#include "absl/status/statusor.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns whether the job file says which type examples of `source` have.
bool TypeIsKnown(const DataSourceSpec& source);

// Returns of how many components an example of `source` consists.
size_t NumComponents(const DataSourceSpec& source);

// Returns whether ExpectedBatch() knows the shapes: they are those of the data, or declared by the
// model.
bool ShapesAreKnown(const JobSpec& job);

// Returns the type of a batch of `source`, after the job's pipeline. Requires TypeIsKnown().
absl::StatusOr<proto::ElementSpec> KnownBatch(const JobSpec& job, const DataSourceSpec& source);

// Returns the type of a batch of training data, after the pipeline. Errors: INVALID_ARGUMENT if not
// ShapesAreKnown(), or if the pipeline cannot transform data that the model takes.
absl::StatusOr<proto::ElementSpec> ExpectedBatch(const JobSpec& job);

}  // namespace cohort
