#pragma once

// How many threads of a machine one worker computes with: workers that share a machine share its
// processors, since more threads than processors only make each other wait.

#include "common/cluster/cluster_spec.h"

namespace cohort {

// Processors divided by the workers whose address has the same host as this one's, at least 1.
// A task that is not in the cluster counts as alone.
int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors);

}  // namespace cohort
