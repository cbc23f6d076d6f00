#pragma once

// What waits at a cluster: for tasks that are not there yet, and of workers that leave.

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/cluster/worker_roster.h"

namespace cohort {

// A worker that is being removed: no member any more, and still watched.
struct LeavingWorker {
  Member member;
  std::shared_ptr<TaskConnection> connection;  // none: it was never attached
};

// Until every home and so many workers serve.
struct ReadyWait {
  int min_workers = 0;
  absl::AnyInvocable<void(absl::Status)> done;
};

}  // namespace cohort
