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

// Returns the function's result for each replica, a row each, as an argument of a closure whose
// program takes it with FromArgumentOfReplica (common/program/bind.h). TensorFlow:
// Strategy.experimental_distribute_values_from_function. Errors: the function's; INVALID_ARGUMENT
// for values whose types or shapes differ, and for no replicas.
absl::StatusOr<Tensor> ValuesFromFunction(
    int64_t num_replicas_in_sync,
    absl::FunctionRef<absl::StatusOr<Tensor>(const ValueContext&)> function);

// tf.distribute.ReduceOp.
enum class ReplicaReduce { kSum, kMean };
// Reads "SUM" or "mean", in any case. Errors: INVALID_ARGUMENT naming the two.
absl::StatusOr<ReplicaReduce> ReplicaReduceFromName(absl::string_view name);

// Reduces element by element over replicas; MEAN divides by their number. Takes float32, float64,
// int32 and int64; a mean of whole numbers is cut to a whole one. TensorFlow: Strategy.reduce(op,
// values, axis=None). Errors: INVALID_ARGUMENT for no value, types and shapes that differ, and
// other types.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas);

// Reduces over these axes, which may be negative, in every replica, then over replicas. MEAN
// divides by how many elements were summed in all, so that a replica counts by its size. Errors: as
// above, but sizes along the axes may differ; INVALID_ARGUMENT naming an axis that is out of range,
// or given twice.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                      absl::Span<const int64_t> axes);

// Reduces a value that is the same on all replicas, because no replica made it. MEAN returns it.
// SUM returns it if there is one replica or if it is zeros. Errors: INVALID_ARGUMENT for any other
// SUM: nobody can tell whether to count the value once or once per replica.
absl::StatusOr<Tensor> ReduceShared(ReplicaReduce op, const Tensor& value, int64_t replicas);

// Joins values along `axis`, which may be negative. TensorFlow: Strategy.gather. Errors:
// INVALID_ARGUMENT for no value, scalars, another rank or type, sizes that differ along another
// axis, and an axis that is out of range.
absl::StatusOr<Tensor> GatherReplicas(absl::Span<const Tensor> replicas, int64_t axis);

}  // namespace cohort
