#pragma once

// The parts of a ClusterCoordinator, which do the work behind the API: the cluster holds the
// connections to the tasks, the scheduler runs closures, the recovery and the copies deal with
// losses, and PsControl makes the coordinator's own calls to the homes of variables. The parts
// call each other: a task that the cluster loses is a loss for the scheduler, too. Programs do not
// include this header. It is for the API itself, for rooms that stand beside the program (train,
// daemon), and for tests.

#include <memory>

#include "common/base/event.h"
#include "common/wire/world.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/home_memory.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/homes/ps_control.h"
#include "coordinator/recovery/copies.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

// The parts of one coordinator, in the order in which they are made. The pointers do not change.
// Every part is thread-safe.
struct CoordinatorParts {
  // The memory of the variables' homes, as far as the homes reported it. Shared with the cluster's
  // callbacks.
  std::shared_ptr<HomeMemory> memory;
  // The scheduler of this coordinator, shared with the scheduler's calls in flight.
  std::shared_ptr<Scheduler> scheduler;
  // The cluster of this coordinator, shared with the cluster's connections.
  std::shared_ptr<Cluster> cluster;
  // The recovery of the job after the loss of a ps, shared with its own calls; null without a
  // recovery directory.
  std::shared_ptr<Recovery> recovery;
  // Keeps the workers' copies of mirrored variables equal; shared with its own calls; null unless
  // variables are mirrored.
  std::shared_ptr<Copies> copies;
  std::unique_ptr<PsControl> ps;

  // Tells each part to stop. Calls in flight also own the parts, so the parts may outlive the
  // coordinator.
  void Stop() const;
};

// Makes the parts and connects them. No task is called before Cluster::Claim.
CoordinatorParts MakeCoordinatorParts(World world, Waiter& waiter,
                                      const ClusterCoordinatorOptions& options);

}  // namespace cohort
