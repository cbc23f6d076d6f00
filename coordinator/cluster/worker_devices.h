#pragma once

// The devices of the workers, as the workers report them (WorkerService.ListDevices).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"

namespace cohort {

struct DeviceQuestion {
  std::vector<int> workers;  // task indices
  absl::Duration timeout;    // until all have answered
  // a worker that does not answer for so long may be lost, and is asked again
  absl::Duration call_timeout;
};

// Returns the devices of each of these workers, which are the same. Blocks. All of them have been
// there before (ClusterCoordinator::WaitForCluster). A worker that is lost before it has answered
// is asked again when it is back; a worker that stays away for the lease, or half of `timeout`, is
// left out if at least as many as the job needs are there, and is then taken in like any that comes
// later. A removed worker is not waited for any more. Errors: INVALID_ARGUMENT naming two workers
// whose devices differ, and what each has; DEADLINE_EXCEEDED of class WORKER_LOST naming the
// missing ones; Cluster::Abort's; a worker's own error.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort
