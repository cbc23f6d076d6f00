#pragma once

// The number of threads with which one worker computes: workers that share a machine share its
// processors, since more threads than processors only make each other wait.

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// A thread for each replica that computes in this process, made when it is first asked for. One
// thread for one replica keeps OpenMP at one team for each. The destructor runs what is queued,
// then joins. Thread-safe.
class ComputeThreads {
 public:
  Executor& Of(size_t replica) {
    MutexLock lock(mutex_);
    while (threads_.size() <= replica) {
      const std::string name = absl::StrCat("compute", threads_.empty() ? "" : "/",
                                            threads_.empty() ? "" : absl::StrCat(threads_.size()));
      const ThreadPool::Options options{name, 1, Turns::kUsual};
      threads_.push_back(std::make_unique<ThreadPool>(options));
    }
    return *threads_[replica];
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<ThreadPool>> threads_ ABSL_GUARDED_BY(mutex_);
};

// Returns the processors divided by the workers whose address has the same host as this one's, at
// least 1. A task that is not in the cluster counts as alone.
int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors);

}  // namespace cohort
