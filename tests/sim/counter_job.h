#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {

// Runs `increments` closures that each push 1 to a counter, kills and restarts workers at points
// drawn from the seed, and returns the counter's value at the end.
struct CounterJob {
  int increments = 100;
  int kills = 0;
  FaultPlan faults;
};
absl::StatusOr<float> RunCounterJob(SimCluster& cluster, const CounterJob& job);

}  // namespace cohort
