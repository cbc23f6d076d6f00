#pragma once

// A strategy as its user holds it: a cluster, how variables are cut, and the one coordinator that
// all of it goes through, as in tf.distribute, where every ClusterCoordinator made for a strategy
// is the same object.

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/wire/world.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

// Thread-safe.
class TrainingStrategy {
 public:
  TrainingStrategy(World world, Waiter& waiter, ClusterCoordinator::Options options);

  // Connects at the first call; every other call, from any thread, returns the same coordinator,
  // which lives as long as this. Errors: those of ClusterCoordinator::Connect, for every call that
  // waited; the next call tries again.
  absl::StatusOr<ClusterCoordinator*> Coordinator();

 private:
  // An attempt to connect, shared by the thread that makes it and those that wait for it.
  struct Attempt {
    Event ended;
    absl::Status status;  // written before the event, read after it
  };

  const World world_;
  Waiter& waiter_;
  const ClusterCoordinator::Options options_;
  Mutex mutex_;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);  // under way
  std::unique_ptr<ClusterCoordinator> coordinator_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
