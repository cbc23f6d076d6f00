#pragma once

// The coordinator's side of the reports of tasks that do not reach each other: the pairs (edges.h),
// the time that they need to be believed, and the log. Cluster decides what follows.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/edges.h"
#include "proto/error.pb.h"

namespace cohort {

// Thread-safe. Shared: timers hold it weakly.
class ReachWatch : public std::enable_shared_from_this<ReachWatch> {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    // Returns whether the coordinator hears the task at this moment.
    std::function<bool(TaskId)> is_heard;
    // Tells that broken() has changed. Like is_heard it runs outside the lock and must not block.
    std::function<void()> on_change;
  };
  // Makes a watch; the clock outlives it.
  ReachWatch(Clock& clock, Options options);

  // Reports all peers that the process does not reach now. Tasks that no cluster may have are left
  // out.
  void Report(const proto::TaskRef& from, const std::vector<proto::TaskRef>& peers);
  // Notes that the process serves: the reports of an earlier one in its place are forgotten.
  void OnServing(const proto::TaskRef& task);
  void OnLost(TaskId task);

  std::set<TaskPair> broken() const;
  // Returns the tasks that do not reach this one, for its own log.
  std::vector<proto::TaskRef> UnreachedBy(TaskId task) const;

 private:
  void Look();

  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  Edges edges_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> reporters_ ABSL_GUARDED_BY(mutex_);  // incarnations
  bool timer_set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
