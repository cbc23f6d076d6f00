#pragma once

// The exchange of values when replicas meet at a node of their program (replica_meeting.h). First
// the values of one worker's replicas are joined into one value. If other workers take part,
// collective calls then join the values of all workers. Finally each replica gets its share of the
// result. The result does not depend on the order in which replicas arrive.
//
// Replicas run the same program, so every worker has the same meetings in the same order, and the
// collective calls of all workers match. Sums have the order of group_sum.h, one tree over all
// replicas; gathered values lie in the order of the replicas of rank 0, 1, and so on.

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

// The result of an exchange for all replicas: the sum of their values, or the values that they
// gathered.
struct WholeExchange {
  Tensor value;
  // Used by kSumPart only: where the parts of this worker begin along the axis, and the size of the
  // parts of all workers together.
  int64_t begin = 0;
  int64_t size = 0;
};

// Joins the calls of one worker's replicas, in the order of the replicas, into one call; there is
// at least one. The value of the joined call is the sum (for kMean too) or the gathered values; its
// `size` is the sum of the calls' sizes. A sum is written over the first call's value. Errors:
// INVALID_ARGUMENT for values that cannot be summed or gathered; INTERNAL for replicas that are at
// different nodes.
absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls);

// The workers whose replicas meet, as one of these workers sees them.
struct MeetingWorkers {
  // The gang's group; shared, so that it lives until its collective calls are done.
  std::shared_ptr<GangGroup> group;
  GroupCommunication communication;
  // True if the batch has no examples for this worker. The worker then computes the last replica's
  // examples, to know the shapes, and its values do not count.
  bool neutral = false;
};

// Exchanges the value that this worker's replicas have joined with the values of the other workers.
// For a sum of parts, a neutral worker (MeetingWorkers) gets the part of the last replica of all,
// because it computes that replica's examples. `done` runs once, on any thread, and must post
// longer work elsewhere, as must the Done of a communicator. Errors: INVALID_ARGUMENT, the same on
// all workers, for gathered values that do not fit together; those of the group (communicator.h).
using GroupExchanged = absl::AnyInvocable<void(absl::StatusOr<WholeExchange>)>;
void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done);

// Splits the result of a call into one answer for each replica of this worker. `sizes` are the
// sizes of these replicas' parts; `replicas`, by which a mean is divided, is the number of replicas
// on all workers. Errors: INVALID_ARGUMENT for a type that has no mean, and for parts that do not
// add up to the size of the result.
std::vector<absl::StatusOr<Tensor>> SplitResult(const ExchangeCall& call, WholeExchange whole,
                                                absl::Span<const int64_t> sizes, int64_t replicas);

}  // namespace cohort
