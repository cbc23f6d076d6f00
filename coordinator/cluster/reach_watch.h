#pragma once

// Collects the tasks' reports that they do not reach each other. It keeps the reported pairs
// (edges.h), checks them at intervals until they count as broken, and logs. Cluster decides what
// follows from a broken pair.

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

// Collects the tasks' reports, and tells when a pair of tasks becomes broken or heals. Timers hold
// weak pointers to it. Thread-safe.
class ReachWatch : public std::enable_shared_from_this<ReachWatch> {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    // A function that returns whether the task answers the coordinator now.
    std::function<bool(TaskId)> is_heard;
    // Called when the set broken() has changed. is_heard and on_change are called without the lock,
    // and must not block.
    std::function<void()> on_change;
  };
  // Makes a watch that knows no reports. `clock` outlives the watch.
  ReachWatch(Clock& clock, Options options);

  // Records the peers that the process `from` does not reach now. The report replaces the task's
  // earlier report. Ignores tasks that are neither ps nor worker.
  void Report(const proto::TaskRef& from, const std::vector<proto::TaskRef>& peers);
  // Notes that the process `task` serves. If it is a new process of its task, forgets the reports
  // of the earlier process.
  void OnServing(const proto::TaskRef& task);
  void OnLost(TaskId task);

  std::set<TaskPair> broken() const;
  // Returns the tasks that form a broken pair with `task`. They are sent to `task`, which logs
  // them.
  std::vector<proto::TaskRef> UnreachedBy(TaskId task) const;

 private:
  void Look();

  Clock& clock_;
  const Options options_;
  mutable Mutex mutex_;
  Edges edges_ ABSL_GUARDED_BY(mutex_);
  // The incarnation of each task that has reported, by task.
  std::map<TaskId, uint64_t> reporters_ ABSL_GUARDED_BY(mutex_);
  bool timer_set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
