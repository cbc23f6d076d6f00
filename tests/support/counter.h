#pragma once

// What most tests and benchmarks of a cluster do: count.

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

struct Counter {
  Variable variable;  // "counter", a float scalar
  ProgramHandle increment;
};

absl::StatusOr<Counter> MakeCounter(ClusterCoordinator& coordinator);

}  // namespace cohort
