#pragma once

// Which devices the workers have, as they say themselves (WorkerService.ListDevices).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"

namespace cohort {

struct DeviceQuestion {
  std::vector<int> workers;     // who is asked: task indices
  absl::Duration timeout;       // until all have answered
  absl::Duration call_timeout;  // who does not answer for so long may be lost, and is asked again
};

// The devices of each of these workers, which are the same. Blocks. A worker that is lost before it
// has answered is asked again when it is back; when all have been there, the others go on without
// one that is not back for `call_timeout`, or half of `timeout`. One that is removed is waited for
// no more. Errors: INVALID_ARGUMENT naming two workers whose devices differ, and what each has;
// DEADLINE_EXCEEDED of class WORKER_LOST; that of Cluster::Abort; what a worker answers.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort
