#pragma once

// The farewell of a coordinator to all of its tasks at the end of a job: either the tasks end, or
// they stay and are free for any job.
//
// A task that another coordinator has attached in the meantime refuses the farewell (farewell.h).
// But the other coordinator attaches one task after another, homes of variables first
// (epoch_claim.h), and tasks that it has not attached yet would obey the farewell. So LeaveTasks
// sends the farewell to a home first. If the home refuses, the tasks belong to another coordinator,
// and no other task is told anything. If the home obeys, it grants no epoch any more, so no
// coordinator can take over.

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/farewell.h"

namespace cohort {

// Sends the farewell to all serving tasks, and waits `call_timeout` for each home until one
// answers, and once more for all other tasks. Stops the cluster. A task that does not answer counts
// as told, because it may have ended before its answer was sent. Errors: an error of class STALE if
// another coordinator has taken over; then no task was told.
absl::Status LeaveTasks(Waiter& waiter, Cluster& cluster, Farewell farewell,
                        absl::Duration call_timeout);

// Asks the homes whether this coordinator still holds the tasks: one home after another, until one
// says so. Errors: an error of class STALE if another coordinator has taken over.
absl::Status CheckHeld(Waiter& waiter, const Cluster& cluster);

// The same, but the answer of a home is required. Errors: those of CheckHeld; UNAVAILABLE if no
// home answers, for then another coordinator may hold the tasks.
absl::Status ConfirmHeld(Waiter& waiter, const Cluster& cluster);

}  // namespace cohort
