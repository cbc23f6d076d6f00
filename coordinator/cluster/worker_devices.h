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

// Returns the devices of each of these workers, which are the same. Blocks. All of them have been
// there before (ClusterCoordinator::WaitForCluster). One that is lost before it has answered is
// asked again when it is back; one that stays away for the lease, or half of `timeout`, is left out
// if as many as the job needs at least are there, and is then taken in like any that comes later.
// One that is removed is waited for no more. Errors: INVALID_ARGUMENT naming two workers whose
// devices differ, and what each has; DEADLINE_EXCEEDED of class WORKER_LOST naming who is not
// there; that of Cluster::Abort; what a worker answers.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort
