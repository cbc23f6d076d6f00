#pragma once

// What the plans of the seeds' jobs have in common: the cluster, and how its coordinators run
// closures.

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace cohort {

struct JobPlan {
  int ps = 0;
  int workers = 1;
  int closures_in_flight = 2;
  size_t queue_bound = 1024;
  size_t redo_max = 65536;
  absl::Duration recovery_interval;
  absl::Duration lease;
  // Whether every start of a task but the coordinator finds an empty disk of its own, so that
  // checkpoints stream.
  bool private_disks = false;
  size_t chunk_bytes = 0;  // of shards that stream
  uint32_t pace = 0;       // milliseconds between two items at most
};

}  // namespace cohort
