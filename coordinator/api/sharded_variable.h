#pragma once

// A variable with the operations of TensorFlow's ShardedVariable, whether or not the variable is
// cut into slices. The operations are meant for the coordinator's own code, which initializes,
// inspects and corrects values; training goes through closures. A read asks all parameter servers
// in parallel, and asks for each row once. The result has the rows in the order of the requested
// ids, with duplicates (TensorFlow's sparse_read returns them in the order of the shards). As in
// TensorFlow, a read is consistent within each slice only.

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/tensor_slicing.h"

namespace cohort {

// A variable with TensorFlow's reads and changes. Every method also returns these errors:
// UNAVAILABLE (PS_LOST) naming the ps; DEADLINE_EXCEEDED; errors that a ps answers. Methods that
// take ids check them before any request is sent: OUT_OF_RANGE names the variable and the id. The
// coordinator outlives this object. Thread-safe.
class ShardedVariable {
 public:
  // Wraps a variable that lives on parameter servers, or a local variable. A local variable can
  // only be read.
  ShardedVariable(ClusterCoordinator& coordinator, Variable variable)
      : coordinator_(coordinator), variable_(std::move(variable)) {}

  const Variable& variable() const { return variable_; }

  // Reads the whole value of the variable. TensorFlow: tf.convert_to_tensor(v), v.numpy().
  absl::StatusOr<Tensor> ConvertToTensor() const { return coordinator_.Read(variable_); }
  // Reads a part of the variable, as v[...] does in TensorFlow. Errors: those of PlanSlicing,
  // naming the variable.
  absl::StatusOr<Tensor> Slice(absl::Span<const SliceItem> items) const;
  // Reads the rows whose element in the bool[rows] tensor `mask` is true. TensorFlow: v[mask],
  // tf.boolean_mask. Errors: INVALID_ARGUMENT for a mask of another type or shape.
  absl::StatusOr<Tensor> BooleanMask(const Tensor& mask) const;
  // Reads rows by int32 or int64 ids of any shape; the result has shape ids.shape + v.shape[1:].
  // TensorFlow: v.sparse_read(ids), tf.nn.embedding_lookup(v, ids).
  absl::StatusOr<Tensor> SparseRead(const Tensor& ids) const;
  // Reads elements or sub-tensors of the variable. The last axis of `indices` (int32 or int64)
  // holds one index per leading axis of the variable, for at least one axis. TensorFlow:
  // tf.gather_nd(v, indices).
  absl::StatusOr<Tensor> GatherNd(const Tensor& indices) const;

  // Change the whole variable. A change is not a push: it leaves the slots, the version and the set
  // of applied closures of each slice as they are. Each slice makes the change once, however often
  // the request is repeated. With a recovery directory, the change is durable when the method
  // returns. Errors: INVALID_ARGUMENT naming the variable, for a value of another type or shape, an
  // integer division by 0, or a local variable; the variable is then unchanged.
  absl::Status Assign(const Tensor& value) const;
  absl::Status AssignAdd(const Tensor& delta) const;
  absl::Status AssignSub(const Tensor& delta) const;
  // Change row `ids[i]` of the variable with row `updates[i]`, for each i; `ids` is int32 or int64
  // [n]. If an id occurs more than once, its updates are made one after another. So TensorFlow's
  // batch_scatter_update and scatter_update do the same here.
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
