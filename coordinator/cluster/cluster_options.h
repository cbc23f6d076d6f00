#pragma once

// What a cluster is told when it is made.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/cluster/edges.h"
#include "coordinator/cluster/epoch_claim.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/cluster/worker_roster.h"

namespace cohort {

// Thread-compatible.
struct ClusterOptions {
  ClusterSpec spec;
  CoordinatorIdentity self;
  uint64_t seed = 0;
  WorkerLimits limits;
  Role homes = Role::kPs;
  bool mirrored = false;   // homes have copies of the same variables
  int worker_threads = 0;  // compute threads of each worker; 0 lets it decide
  // The present address of a task; by default the one of the spec.
  std::function<std::string(TaskId)> address;
  // These run outside the lock and must not block.
  std::function<void(const TaskLink&)> on_home_serving;  // after its loss before was told
  std::function<void(int worker, const TaskLink&)> on_worker_ready;
  std::function<void(int worker, const absl::Status& cause)> on_worker_lost;
  // The worker takes no closure from now on; `drained` runs when it has none in flight. May be
  // repeated.
  std::function<void(int worker, absl::AnyInvocable<void()> drained)> on_worker_removed;
  // A task was asked to end, and serves on for `patience` or until `let_go`. Null: it is lost at
  // once.
  std::function<void(TaskId, absl::Duration patience, absl::AnyInvocable<void()> let_go)>
      on_leaving;
  std::function<void(int worker)> on_home_added;        // a member that is to get a copy
  std::function<void(const absl::Status&)> on_ps_lost;  // class PS_LOST, origin filled in
  std::string ps_lost_remedy;                           // ends its text
  // Who does nothing now, as pairs of tasks do not reach each other. May be repeated.
  std::function<void(const Apart&)> on_apart;
  // Another coordinator holds a task: class STALE. Not for workers that were added.
  std::function<void(const absl::Status&)> on_superseded;
};

}  // namespace cohort
