#pragma once

// Extends a meeting of replicas to all workers of a gang. The replicas of one worker join their
// values first (exchange_values.h); collective calls of the group then join the workers' results.
// Replicas run the same program, so every worker has the same meetings in the same order and the
// calls of all workers match. Sums have the order of group_sum.h, one tree over all replicas;
// gathered values lie in the order of ranks.

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "worker/gang/gang_group.h"
#include "worker/gang/group_sum.h"
#include "worker/replicas/exchange_values.h"

namespace cohort {

// The workers of a meeting, as one worker sees them.
struct MeetingWorkers {
  // Group of the gang; shared: lives until the group's calls are done.
  std::shared_ptr<GangGroup> group;
  GroupCommunication communication;
  // True if this worker has no examples. The worker then computes another worker's examples, to
  // know the shapes, and its values do not count.
  bool neutral = false;
};

// Joins over all workers the value that this worker's replicas have joined. For a sum of parts, a
// neutral worker gets the parts of the last replica of all, whose part of the batch it computes.
// `done` runs once, on any thread, and must post longer work elsewhere, as for a communicator.
// Errors: INVALID_ARGUMENT for gathered values that do not fit together, the same on all workers;
// those of the group (communicator.h).
using GroupExchanged = absl::AnyInvocable<void(absl::StatusOr<WholeExchange>)>;
void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done);

}  // namespace cohort
