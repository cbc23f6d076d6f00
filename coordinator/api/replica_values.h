#pragma once

// Operations on the values of replicas, as tf.distribute has them in cross-replica context. A fetch
// of kind EACH_REPLICA returns one tensor per replica; the functions below combine these tensors
// into one, like Strategy.reduce and Strategy.gather. Sums of floats over replicas are taken in the
// order of a balanced tree over ranks. Sums over the rows of one replica are taken in row order.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The argument of a function that makes one value per replica: tells the function for which replica
// it makes a value. TensorFlow: tf.distribute.experimental.ValueContext.
struct ValueContext {
  int64_t replica_id_in_sync_group = 0;
  int64_t num_replicas_in_sync = 1;
};

// Calls `function` once per replica and returns the results as the rows of one tensor. A closure
// takes this tensor as an argument if its program is bound with FromArgumentOfReplica
// (common/program/bind.h). TensorFlow: Strategy.experimental_distribute_values_from_function.
// Errors: those of `function`; INVALID_ARGUMENT for values whose types or shapes differ, and if
// there are no replicas.
absl::StatusOr<Tensor> ValuesFromFunction(
    int64_t num_replicas_in_sync,
    absl::FunctionRef<absl::StatusOr<Tensor>(const ValueContext&)> function);

// The operation that combines the values of replicas. TensorFlow: tf.distribute.ReduceOp.
enum class ReplicaReduce { kSum, kMean };
// Converts the name "SUM" or "MEAN", in upper or lower case, to a ReplicaReduce. Errors:
// INVALID_ARGUMENT for any other name; the text names both operations.
absl::StatusOr<ReplicaReduce> ReplicaReduceFromName(absl::string_view name);

// Reduces the replicas' values element by element; MEAN divides by the number of replicas. Accepts
// float32, float64, int32 and int64; a mean of integers is truncated to an integer. TensorFlow:
// Strategy.reduce(op, values, axis=None). Errors: INVALID_ARGUMENT for no value, for types or
// shapes that differ, and for other types.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas);

// Reduces each replica's value over `axes` (negative axes count from the end), and then over the
// replicas. MEAN divides by the number of all summed elements, so a replica with more elements has
// more weight. Errors: those of the overload without `axes`, except that sizes may differ along
// `axes`; INVALID_ARGUMENT naming an axis that is out of range or given twice.
absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                      absl::Span<const int64_t> axes);

// Reduces a value that was not computed by replicas, and so is the same for all of them. MEAN
// returns the value. SUM returns the value if there is one replica, or if the value is all zeros.
// Any other SUM is an INVALID_ARGUMENT error, because it is unknown whether the value counts once,
// or once per replica.
absl::StatusOr<Tensor> ReduceShared(ReplicaReduce op, const Tensor& value, int64_t replicas);

// Concatenates the values of replicas along `axis`, which counts from the end if negative.
// TensorFlow: Strategy.gather. Errors: INVALID_ARGUMENT if there are no values, for scalars, for
// ranks or types that differ, for sizes that differ along another axis, and for an axis that is out
// of range.
absl::StatusOr<Tensor> GatherReplicas(absl::Span<const Tensor> replicas, int64_t axis);

}  // namespace cohort
