#pragma once

// Limits of scheduling: how many closures may be under way, and how often a closure may fail.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace cohort {

// The consequence of a quarantined closure for the job. In both cases, the closure's own result is
// an error.
enum class Quarantine {
  kFail,  // the job gets the closure's error, as for any closure that fails
  kSkip,  // the job goes on without the closure, which is logged and counted in SchedulerStats
};

// The options of a scheduler that a user's program chooses (ClusterCoordinatorOptions).
struct ScheduleLimits {
  // The maximum number of closures that have not ended. The default is TensorFlow's.
  size_t queue_bound = 262144;
  int closures_in_flight = 2;          // closures that one worker holds at once (K slots)
  uint64_t shared_memory = 0;          // value of Gang.shared_memory, for gangs of several workers
  std::optional<int32_t> nccl_device;  // value of Gang.nccl_device, for gangs of several workers
  uint32_t attempts_max = 10;          // number of faults (attempts.h) at which a closure fails
  // A closure is quarantined, which means that it does not run again, once worker processes have
  // ended with it in this number of attempts (attempts.h).
  size_t quarantine_after = 3;
  Quarantine quarantine = Quarantine::kFail;
  // If true, no queued closure starts once an error is recorded. If false, queued closures start
  // until a call observes the error, as in TensorFlow.
  bool stop_at_first_error = true;
  absl::Duration closure_timeout = absl::Minutes(10);
};

}  // namespace cohort
