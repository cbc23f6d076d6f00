#pragma once

// A strategy as a user's program holds it: the cluster, the way variables are cut, and one
// coordinator. As in tf.distribute, every request for the ClusterCoordinator of a strategy returns
// the same object.

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/wire/world.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

// A strategy that connects to its cluster when it is first used. Thread-safe.
class TrainingStrategy {
 public:
  TrainingStrategy(World world, Waiter& waiter, ClusterCoordinator::Options options);

  // Connects to the cluster at the first call. Every other call, from any thread, returns the same
  // coordinator, which lives as long as this object. Errors: those of ClusterCoordinator::Connect;
  // all calls that wait for the failed attempt get its error, and a later call tries again.
  absl::StatusOr<ClusterCoordinator*> Coordinator();

 private:
  // An attempt to connect, shared by the thread that makes the attempt and the threads that wait
  // for it.
  struct Attempt {
    Event ended;
    // The result of the attempt. It is written before `ended` is notified, and read only after
    // that.
    absl::Status status;
  };

  const World world_;
  Waiter& waiter_;
  const ClusterCoordinator::Options options_;
  Mutex mutex_;
  // The attempt to connect that is under way, or null.
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ClusterCoordinator> coordinator_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
