#pragma once

// Rules for TensorFlow's VariableAggregation. Several replicas may assign to a variable or add to
// it, in a synchronous round or in one worker. The variable's aggregation says how the replicas'
// values become one update. As in TensorFlow, a variable needs an aggregation if it is assigned to
// or added to in replica context. Gradients need none, because optimizers reduce gradients
// themselves.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns the name of an aggregation as in tf.VariableAggregation, such as "SUM", or the number of
// an unknown mode.
std::string AggregationName(proto::VariableAggregation aggregation);

// Checks that an aggregation is known and fits the element type `dtype` of a variable. Errors:
// INVALID_ARGUMENT for an unknown mode, and for a mean of whole numbers.
absl::Status CheckAggregation(proto::VariableAggregation aggregation, DType dtype);

// The kind of an update of a variable that a replica sends: kAssign assigns to the variable, and
// kPush sends a gradient or a value to add. ReplicaContext describes an update of either kind in a
// synchronous round.
enum class ReplicaUpdate { kAssign, kPush };
struct ReplicaContext {
  const std::string& variable;
  const proto::UpdateRule& rule;
  proto::VariableAggregation aggregation;
  ReplicaUpdate update = ReplicaUpdate::kPush;

  // Checks that the variable has an aggregation other than NONE, unless the update is a gradient
  // for an optimizer. Errors: INVALID_ARGUMENT that names the variable and says what to do.
  absl::Status Check() const;
  // Returns the aggregation by which the updates of all replicas become one update of the variable:
  // MEAN for gradients, and otherwise the variable's aggregation.
  proto::VariableAggregation How() const;
  // Returns true if the update is a gradient for an optimizer, which takes the mean of the
  // gradients.
  bool Trains() const;
};

// The functions below are for variables with synchronization ON_READ (VariableLayout.replicas).
// Each replica has a value of its own, which only that replica reads and changes in replica
// context. The variable has the shape [replicas, ...], with one row for each replica. Readers
// outside the replicas (the coordinator, a checkpoint, an export) see one value, which the
// aggregation makes from the rows:
//
//   SUM                 the sum of the rows; a new value is divided among the replicas
//   MEAN                the mean of the rows; a new value is given to every replica
//   ONLY_FIRST_REPLICA  the first row; a new value is given to every replica
//   NONE                no value: reading the variable, and setting its value, are errors
//
// Whole numbers are divided as in TensorFlow: the remainder is lost.

// Returns the shape of a variable's value, without the axis of the replicas, which graphs and users
// do not see.
Shape ValueShape(const proto::VariableLayout& layout);

// The name and the aggregation of a variable that has one row for each replica.
struct ReplicaRows {
  const std::string& variable;
  proto::VariableAggregation aggregation;
};

// Returns the one value that the variable's aggregation makes from its rows, one for each replica.
// Errors: INVALID_ARGUMENT that names the variable and says what to do, if the aggregation is NONE.
absl::StatusOr<Tensor> ValueOfRows(const ReplicaRows& of, const Tensor& rows);

// Returns rows of a variable, one for each of `replicas` replicas, from which ValueOfRows would
// make `value`.
Tensor RowsOfValue(const ReplicaRows& of, const Tensor& value, int64_t replicas);

// Returns a tensor [replicas, ...] in which every row is `row`.
Tensor RowsWithEach(const Tensor& row, int64_t replicas);

// Returns one replica's row as a tensor that shares the memory of `rows`.
Tensor RowOfReplica(const Tensor& rows, int64_t replica);

}  // namespace cohort
