#pragma once

// A variable with the operations of TensorFlow's ShardedVariable, whether it is cut or not, for the
// coordinator's own code: initialising, inspecting, correcting. Training goes through closures. A
// read asks the parameter servers for the rows that it needs, each once and all servers at a time;
// rows come in the order in which they were asked for, duplicates kept (TensorFlow's sparse_read
// gives them in the order of the shards). Like there, a read is of one instant for each slice only.

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/tensor_slicing.h"

namespace cohort {

// A variable with TensorFlow's reads and changes. Every method's errors: those of PsControl. Ids
// are checked before anything is sent: OUT_OF_RANGE naming the variable and the id. Thread-safe;
// the coordinator outlives it.
class ShardedVariable {
 public:
  // Wraps a variable with a home on parameter servers, or a local one, which is only read.
  ShardedVariable(ClusterCoordinator& coordinator, Variable variable)
      : coordinator_(coordinator), variable_(std::move(variable)) {}

  const Variable& variable() const { return variable_; }

  // Reads the whole value. TensorFlow: tf.convert_to_tensor(v), v.numpy().
  absl::StatusOr<Tensor> ConvertToTensor() const { return coordinator_.Read(variable_); }
  // Reads v[...]. Errors: those of PlanSlicing, naming the variable.
  absl::StatusOr<Tensor> Slice(absl::Span<const SliceItem> items) const;
  // Reads the rows for which a bool[rows] is true. TensorFlow: v[mask], tf.boolean_mask. Errors:
  // INVALID_ARGUMENT for another type or shape.
  absl::StatusOr<Tensor> BooleanMask(const Tensor& mask) const;
  // Reads rows by int32 or int64 ids of any shape; the result has shape ids.shape + v.shape[1:].
  // TensorFlow: v.sparse_read(ids), tf.nn.embedding_lookup(v, ids).
  absl::StatusOr<Tensor> SparseRead(const Tensor& ids) const;
  // Reads elements or parts: the last axis of `indices` (int32 or int64) is an index of as many
  // axes of the variable as it is long, at least one. TensorFlow: tf.gather_nd(v, indices).
  absl::StatusOr<Tensor> GatherNd(const Tensor& indices) const;

  // Change the variable. A change is not a push: slots, versions and the closures that a slice
  // knows stay. It is made once on each slice, whatever has to be repeated, and with a recovery
  // directory it is durable when this returns. Errors: INVALID_ARGUMENT naming the variable, for
  // another type or shape, a whole number divided by 0, or a local variable. Nothing was changed
  // then.
  absl::Status Assign(const Tensor& value) const;
  absl::Status AssignAdd(const Tensor& delta) const;
  absl::Status AssignSub(const Tensor& delta) const;
  // Rows `updates[i]` of `ids[i]`, one after another where an id is there more than once. int32 or
  // int64 ids [n]; TensorFlow's batch_scatter_update of such ids is its scatter_update.
  absl::Status ScatterUpdate(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterAdd(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterSub(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterMul(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterDiv(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterMin(const Tensor& ids, const Tensor& updates) const;
  absl::Status ScatterMax(const Tensor& ids, const Tensor& updates) const;
  absl::Status BatchScatterUpdate(const Tensor& ids, const Tensor& updates) const {
    return ScatterUpdate(ids, updates);
  }

 private:
  absl::Status Scatter(proto::ChangeOp op, const Tensor& ids, const Tensor& updates) const;
  absl::StatusOr<Tensor> ReadRows(absl::Span<const int64_t> rows) const;

  ClusterCoordinator& coordinator_;
  const Variable variable_;
};

}  // namespace cohort
