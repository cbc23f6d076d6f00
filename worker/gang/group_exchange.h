#pragma once

// A meeting of replicas goes on across the workers of a gang: what those of this worker joined
// (exchange_values.h) is joined with what the others' did, by collective calls of the group. Every
// worker has the same meetings in the same order, since replicas run the same program, so the calls
// of all workers belong together. Sums are as those of group_sum.h, with the same tree over all
// replicas; gathered values lie in the order of ranks.

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "worker/gang/gang_group.h"
#include "worker/gang/group_sum.h"
#include "worker/replicas/exchange_values.h"

namespace cohort {

// The workers, as one of them sees them.
struct MeetingWorkers {
  std::shared_ptr<GangGroup> group;  // shared: lives until its calls are done
  GroupCommunication communication;
  // Whether this worker has no examples: it computes another's, for the shapes, and does not count.
  bool neutral = false;
};

// Joins over all workers what the replicas here joined. Of parts, a neutral worker gets those of
// the last replica of all, whose part of the batch it computes. `done` runs once, on any thread,
// and hands on longer work, as a communicator's. Errors: INVALID_ARGUMENT for gathered values that
// do not fit together, the same on all workers; those of the group (communicator.h).
using GroupExchanged = absl::AnyInvocable<void(absl::StatusOr<WholeExchange>)>;
void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done);

}  // namespace cohort
