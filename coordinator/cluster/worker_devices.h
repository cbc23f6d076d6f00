#pragma once

// The devices of the workers, as each worker reports them (WorkerService.ListDevices).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"

namespace cohort {

struct DeviceQuestion {
  std::vector<int> workers;  // task indices of the workers to ask
  absl::Duration timeout;    // how long all workers together may take
  // The time-out of one call. A worker that does not answer in this time may be lost, and is asked
  // again.
  absl::Duration call_timeout;
};

// Returns the devices that each of `question.workers` has, which must be the same on all of them.
// Blocks. All these workers have served before (ClusterCoordinator::WaitForCluster). A worker that
// is lost before it has answered is asked again when it is back. If a worker stays away for the
// lease, or for half of `timeout`, and as many workers as the job needs are there, the missing
// worker is left out; it joins later like any late worker. A removed worker is not waited for.
// Errors: INVALID_ARGUMENT naming two workers whose devices differ, with both lists;
// DEADLINE_EXCEEDED of class WORKER_LOST naming the missing workers; Cluster::Abort's; a worker's
// own error.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort
