#pragma once

// Collects the tasks' reports that they do not reach each other: the reported pairs (edges.h), the
// time after which a reported pair counts as broken, and the log. Cluster decides what follows from
// a broken pair.

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

// Collects the tasks' reports and tells when a pair of tasks becomes broken or heals. Thread-safe.
// Shared: timers hold it weakly.
class ReachWatch : public std::enable_shared_from_this<ReachWatch> {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    // Returns whether the coordinator has heard from the task recently.
    std::function<bool(TaskId)> is_heard;
    // Tells that the set broken() has changed. Like is_heard, the callback runs outside the lock
    // and must not block.
    std::function<void()> on_change;
  };
  // Makes a watch without any reports; the clock outlives the watch.
  ReachWatch(Clock& clock, Options options);

  // Records the peers that the process `from` does not reach now, in place of its earlier report.
  // Ignores tasks that are neither ps nor worker.
  void Report(const proto::TaskRef& from, const std::vector<proto::TaskRef>& peers);
  // Notes that a process of the task has begun to serve calls. If it is a new process, forgets the
  // reports of the earlier process.
  void OnServing(const proto::TaskRef& task);
  void OnLost(TaskId task);

  std::set<TaskPair> broken() const;
  // Returns the tasks that do not reach `task`, which are sent to the task for its log.
  std::vector<proto::TaskRef> UnreachedBy(TaskId task) const;

 private:
  void Look();

  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  Edges edges_ ABSL_GUARDED_BY(mutex_);
  // Incarnation of each reporting task.
  std::map<TaskId, uint64_t> reporters_ ABSL_GUARDED_BY(mutex_);
  bool timer_set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
