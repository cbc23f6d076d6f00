#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {

// Runs `increments` closures that each push 1 to a counter, and kills and restarts tasks at points
// drawn from the seed. Returns the counter's value at the end.
struct CounterJob {
  int increments = 100;
  int kills = 0;     // of workers
  int ps_kills = 0;  // these and the next need `recovery`
  int coordinator_kills = 0;
  absl::Duration within = absl::Milliseconds(400);  // the kills, from the first closure on
  bool recovery = false;
  absl::Duration recovery_interval = absl::Milliseconds(100);
  size_t redo_max = 65536;
  size_t chunk_bytes = kShardChunkBytes;  // of a checkpoint that streams
  int closures_in_flight = 2;
  absl::Duration closure_timeout = absl::Minutes(10);
  FaultPlan faults;
};
absl::StatusOr<float> RunCounterJob(SimCluster& cluster, const CounterJob& job);

}  // namespace cohort
