#pragma once

// The exchange of values when replicas meet at a node of their program (replica_meeting.h). The
// result does not depend on the order in which replicas arrive. The values of one worker's replicas
// are joined into one call. If replicas of other workers take part, collective calls of the group
// join the calls of all workers next. Finally each replica gets its share of the whole.
//
// Replicas run the same program, so every worker has the same meetings in the same order and the
// calls of all workers match. Sums have the order of group_sum.h, one tree over all replicas;
// gathered values lie in the order of ranks.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/gang/gang_group.h"
#include "worker/gang/group_sum.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

// The result of an exchange over all replicas: the sum of their values, or the values that they
// gathered.
struct WholeExchange {
  Tensor value;
  // For kSumPart: the position along the axis at which this worker's parts begin, and the size of
  // all workers' parts.
  int64_t begin = 0;
  int64_t size = 0;
};

// Joins the calls of the replicas of one worker, at least one call, ordered by rank, into one call.
// The joined call's value is the sum (for kMean too) or the gathered values; its `size` is that of
// all parts. A sum is made in the first call's value. Errors: INVALID_ARGUMENT for values that do
// not fit together; INTERNAL for replicas that are at different nodes.
absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls);

// The workers whose replicas exchange values, as one worker sees them.
struct MeetingWorkers {
  // The gang's group; shared, so that it lives until its calls are done.
  std::shared_ptr<GangGroup> group;
  GroupCommunication communication;
  // True if this worker has no examples. The worker then computes another worker's examples, to
  // know the shapes, and its values do not count.
  bool neutral = false;
};

// Joins over all workers the value that this worker's replicas have joined. For a sum of parts, a
// neutral worker (MeetingWorkers) gets the part of the last replica of all, since it computes that
// replica's part of the batch. `done` runs once, on any thread, and must post longer work
// elsewhere, as for a communicator. Errors: INVALID_ARGUMENT for gathered values that do not fit
// together, the same on all workers; those of the group (communicator.h).
using GroupExchanged = absl::AnyInvocable<void(absl::StatusOr<WholeExchange>)>;
void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done);

// Splits the result of a call into one answer for each replica of this worker; `sizes` are the
// sizes of the replicas' parts. A mean is over `replicas`, the number of replicas on all workers.
// Errors: INVALID_ARGUMENT for a type that has no mean, and for parts that do not add up to the
// whole.
std::vector<absl::StatusOr<Tensor>> SplitResult(const ExchangeCall& call, WholeExchange whole,
                                                absl::Span<const int64_t> sizes, int64_t replicas);

}  // namespace cohort
