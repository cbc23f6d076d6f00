#pragma once

// The values of a meeting of replicas (replica_meeting.h), apart from the order of arrival: those
// of one worker become one; if replicas of other workers meet, too, so do those of all workers
// (group_exchange.h); and each replica gets its share of the whole.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

// The result over all replicas: their sum, or what they gathered.
struct WholeExchange {
  Tensor value;
  // kSumPart: where the parts of this worker begin along the axis, and the size of those of all.
  int64_t begin = 0;
  int64_t size = 0;
};

// Joins the calls of the replicas of one worker, by rank, at least one, into one call: the sum,
// also of what is to be a mean, or what is gathered, and `size` of all parts. A sum is made in the
// first call's value. Errors: INVALID_ARGUMENT for values that do not fit together; INTERNAL for
// replicas that are at different nodes.
absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls);

// Splits the result of a call into that of each replica of this worker, whose parts have these
// sizes; a mean is over `replicas`, those of all workers. Errors: INVALID_ARGUMENT for a type that
// has no mean, and for parts that are not those of the whole.
std::vector<absl::StatusOr<Tensor>> SplitResult(const ExchangeCall& call, WholeExchange whole,
                                                absl::Span<const int64_t> sizes, int64_t replicas);

}  // namespace cohort
