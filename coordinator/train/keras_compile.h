#pragma once

// The arguments of compile() for a .keras archive. Keras makes the optimizer by them when it loads
// the archive, and gives it the state that the archive has. Optimizer, losses and their weights are
// those of the job; metrics stay out, since they are no part of what the model has learned.

#include <string>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Returns compile_config as JSON. The optimizer must be one whose state can be written
// (optimizer_export.h). Keys of the optimizer that Keras does not have are left out.
std::string KerasCompileConfig(const JobSpec& job);

}  // namespace cohort
