#pragma once

// The strands on which the replicas of this worker compute: one strand per replica, the same for
// all programs. So a runner is used by one replica only, and the replicas of a closure run
// concurrently.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/runtime/kernel/output_pool.h"

namespace cohort {

// The strands of one worker, made on first use. Thread-safe.
class ReplicaStrands {
 public:
  // Returns the executor of a replica's strand. The executors outlive this object.
  using ExecutorOf = std::function<Executor&(size_t replica)>;
  explicit ReplicaStrands(ExecutorOf executor_of) : executor_of_(std::move(executor_of)) {}

  Strand& Of(size_t replica) {
    MutexLock lock(mutex_);
    while (strands_.size() <= replica) {
      strands_.push_back(std::make_unique<Strand>(executor_of_(strands_.size())));
    }
    return *strands_[replica];
  }
  // Returns the pool of memory for values that replicas compute together.
  const std::shared_ptr<OutputPool>& pool() const { return pool_; }

 private:
  const ExecutorOf executor_of_;
  // Pool for joined values; grows on demand.
  const std::shared_ptr<OutputPool> pool_ = std::make_shared<OutputPool>();
  Mutex mutex_;
  std::vector<std::unique_ptr<Strand>> strands_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
