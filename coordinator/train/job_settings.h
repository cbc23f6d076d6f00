#pragma once

#include <cstdint>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Returns a fingerprint of what a job trains and how. Two coordinators with the same job name and
// the same fingerprint run the same job, so that one can continue what the other did. The length of
// the training, paths, and the options for watching the cluster do not count.
uint32_t SettingsOf(const JobSpec& job);

}  // namespace cohort
