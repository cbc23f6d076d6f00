#pragma once

#include <cstdint>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Returns a fingerprint of what a job trains, and how: with its name it says whether two
// coordinators are of the same job, and one can go on with what the other did. The length of the
// training, where things lie and how the cluster is watched may change.
uint32_t SettingsOf(const JobSpec& job);

}  // namespace cohort
