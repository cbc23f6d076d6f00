#pragma once

// Values of replicas, as tf.distribute has them in cross-replica context. What a program fetches
// with EACH_REPLICA comes as one tensor of each replica; here they become one: Strategy.reduce and
// Strategy.gather. Sums of floats are taken in the order of a balanced tree over ranks, those of
// rows in their order.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// tf.distribute.experimental.ValueContext.
struct ValueContext {
  int64_t replica_id_in_sync_group = 0;
  int64_t num_replicas_in_sync = 1;
};

// Strategy.experimental_distribute_values_from_function: what the function gives for each replica,
// a row each, to be the argument of a closure whose program takes it with FromArgumentOfReplica
// (common/program/bind.h). Errors: the function's; INVALID_ARGUMENT for values whose types or
// shapes differ, and for no replicas.
absl::StatusOr<Tensor> ValuesFromFunction(
    int64_t num_replicas_in_sync,
    absl::FunctionRef<absl::StatusOr<Tensor>(const ValueContext&)> function);

// tf.distribute.ReduceOp.
enum class ReplicaReduce { kSum, kMean };
// "SUM", "mean": in any case. Errors: INVALID_ARGUMENT naming the two.
absl::StatusOr<ReplicaReduce> ReplicaReduceFromName(absl::string_view name);

// Strategy.reduce(op, values, axis=None): element by element over replicas; MEAN divides by their
// number. Of float32, float64, int32 and int64; a mean of whole numbers is cut to a whole one.
// Errors: INVALID_ARGUMENT for no value, types and shapes that differ, and other types.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas);

// With axes, which may be negative and may be several: the sum over them in every replica, then
// over replicas. MEAN divides by how many elements were summed in all, so that a replica counts by
// its size. Errors: as above, but sizes along the axes may differ; INVALID_ARGUMENT naming an axis
// that is out of range, or given twice.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                      absl::Span<const int64_t> axes);

// A value that is the same on all replicas, because no replica made it. MEAN: itself. SUM: itself
// where there is one replica, and of zeros. Errors: INVALID_ARGUMENT for any other SUM, which would
// count it once or so many times, as nobody can tell.
absl::StatusOr<Tensor> ReduceShared(ReplicaReduce op, const Tensor& value, int64_t replicas);

// Strategy.gather: one behind the other along `axis`, which may be negative. Errors:
// INVALID_ARGUMENT for no value, scalars, another rank or type, sizes that differ along another
// axis, and an axis that is out of range.
absl::StatusOr<Tensor> GatherReplicas(absl::Span<const Tensor> replicas, int64_t axis);

}  // namespace cohort
