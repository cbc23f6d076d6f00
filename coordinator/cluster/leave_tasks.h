#pragma once

// The way a coordinator leaves its tasks: they end, or they stay and are free for any job.
//
// A task that another coordinator has attached by now refuses the farewell (farewell.h). But a
// takeover comes to one task after another, to the homes of variables first (epoch_claim.h), and
// tasks that it has not come to yet would obey. So a home is asked before all other tasks, in the
// order of the claim: if it refuses, the tasks are another coordinator's, and none is told
// anything; if it obeys, it grants no epoch any more, and nobody takes over.

#include "absl/status/status.h"
#include "common/base/event.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/farewell.h"

namespace cohort {

// Tells all that serve, and waits a few seconds for answers; the cluster is stopped. A task that
// does not answer is as good as one that does: it may have ended before its answer left. Errors:
// of class STALE when another coordinator has taken over, and then no task was told.
absl::Status LeaveTasks(Waiter& waiter, Cluster& cluster, Farewell farewell);

// Asks the homes, one after another until one answers, whether the tasks are still this
// coordinator's. Errors: of class STALE when another one has taken over.
absl::Status CheckHeld(Waiter& waiter, const Cluster& cluster);

}  // namespace cohort
