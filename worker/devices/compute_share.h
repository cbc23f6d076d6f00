#pragma once

// The threads on which a worker computes, and their number. Workers on one machine share its
// processors, because threads in excess of the processors only wait for each other.

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// The compute threads of this process: one for each replica, started when Of() is first called for
// the replica. A replica always computes on the same thread, so OpenMP keeps one team of threads
// for it. The destructor runs the tasks that are queued, then joins the threads. Thread-safe.
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

// Returns the number of threads for the programs of the worker `own`: `processors` divided by the
// number of workers whose addresses have the same host, at least 1. A worker that is not in
// `cluster` gets all processors.
int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors);

}  // namespace cohort
