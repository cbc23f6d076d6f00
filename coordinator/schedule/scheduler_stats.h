#pragma once

// Counters of a scheduler, for the summary of a job and for `coordinator ctl status`.

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/worker.pb.h"

namespace cohort {

// The counters that a scheduler keeps for the whole job.
struct SchedulerStats {
  uint64_t done = 0;
  uint64_t put_back = 0;
  uint64_t failed = 0;
  uint64_t quarantined = 0;  // quarantined closures, which `failed` also counts
  uint64_t replayed = 0;     // closures that were done again after a restore
  uint64_t recoveries = 0;   // number of restores
  uint64_t checkpoints = 0;  // number of committed recovery checkpoints
  size_t queued = 0;         // closures that are queued or wait for their arguments
  size_t in_flight = 0;
  int workers_ready = 0;
  // The sums of the step times that workers reported for closures that were done.
  proto::StepTimes times;
  std::string ToString() const;
};

// The counters that a scheduler keeps for one worker.
struct WorkerStats {
  bool ready = false;
  int in_flight = 0;
  uint64_t done = 0;  // closures done by all processes of the worker so far
};

}  // namespace cohort
