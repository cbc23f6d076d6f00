#include "coordinator/api/training_strategy.h"

#include <utility>

namespace cohort {

TrainingStrategy::TrainingStrategy(World world, Waiter& waiter, ClusterCoordinator::Options options)
    : world_(world), waiter_(waiter), options_(std::move(options)) {}

absl::StatusOr<ClusterCoordinator*> TrainingStrategy::Coordinator() {
  std::shared_ptr<Attempt> attempt;
  bool mine = false;
  {
    MutexLock lock(mutex_);
    if (coordinator_ != nullptr) return coordinator_.get();
    // The first thread that finds no coordinator tries to connect. Other threads that come
    // meanwhile wait for the result of this attempt.
    mine = attempt_ == nullptr;
    if (mine) attempt_ = std::make_shared<Attempt>();
    attempt = attempt_;
  }
  if (mine) {
    // The lock is not held during Connect, which waits for the cluster.
    auto connected = ClusterCoordinator::Connect(world_, waiter_, options_);
    attempt->status = connected.status();
    {
      MutexLock lock(mutex_);
      if (connected.ok()) coordinator_ = *std::move(connected);
      // If this attempt has failed, the next call makes a new one.
      attempt_ = nullptr;
    }
    attempt->ended.Notify();
  }
  // A thread may wait here without a timeout of its own, because Connect ends after a deadline.
  waiter_.Wait(attempt->ended, absl::InfiniteDuration());
  if (!attempt->status.ok()) return attempt->status;
  MutexLock lock(mutex_);
  return coordinator_.get();
}

}  // namespace cohort
