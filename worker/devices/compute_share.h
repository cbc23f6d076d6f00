#pragma once

// Computes the number of threads with which one worker computes. Workers on one machine share its
// processors, since surplus threads only wait for each other.

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// One compute thread for each replica of this process, started when Of() is first called for the
// replica. A replica always computes on the same thread, so OpenMP keeps one team of threads for
// each replica. The destructor runs the queued tasks, then joins the threads. Thread-safe.
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

// Returns the number of processors divided by the number of workers whose address has the same host
// as `own`, at least 1. A task that is not in the cluster counts as alone on its machine.
int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors);

}  // namespace cohort
