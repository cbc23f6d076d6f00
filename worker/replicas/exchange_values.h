#pragma once

// The values of a meeting of replicas (replica_meeting.h), independent of the order of arrival. The
// values of one worker's replicas are joined into one call. If replicas of other workers take part,
// the calls of all workers are joined next (group_exchange.h). Finally each replica gets its share
// of the whole.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

// The result over all replicas: their sum, or the values that they gathered.
struct WholeExchange {
  Tensor value;
  // For kSumPart: the position along the axis at which this worker's parts begin, and the size of
  // all workers' parts.
  int64_t begin = 0;
  int64_t size = 0;
};

// Joins the calls of the replicas of one worker, at least one call, ordered by rank, into one call.
// Its value is the sum (for kMean too) or the gathered values; its `size` is that of all parts. A
// sum is made in the first call's value. Errors: INVALID_ARGUMENT for values that do not fit
// together; INTERNAL for replicas that are at different nodes.
absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls);

// Splits the result of a call into one answer for each replica of this worker; `sizes` are the
// sizes of the replicas' parts. A mean is over `replicas`, the number of replicas on all workers.
// Errors: INVALID_ARGUMENT for a type that has no mean, and for parts that do not add up to the
// whole.
std::vector<absl::StatusOr<Tensor>> SplitResult(const ExchangeCall& call, WholeExchange whole,
                                                absl::Span<const int64_t> sizes, int64_t replicas);

}  // namespace cohort
