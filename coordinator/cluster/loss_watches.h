#pragma once

// Who wants to hear when a task is lost, because a call to it would be waited for longer.

#include <cstdint>
#include <map>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// Thread-safe.
class LossWatches {
 public:
  // Runs once, outside the lock.
  using Lost = absl::AnyInvocable<void(absl::Status)>;

  // Of a task, or of any home of variables. Returns the number of the watch.
  uint64_t Add(std::optional<TaskId> task, Lost lost);
  // `lost` does not run any more, unless it is running.
  void Forget(uint64_t watch);
  // Ends the watches of the task, or of homes.
  void Tell(std::optional<TaskId> task, const absl::Status& cause);

 private:
  struct Watch {
    std::optional<TaskId> task;
    Lost lost;
  };
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Watch> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
