#pragma once

// Variables with synchronization ON_READ (VariableLayout.replicas). Each replica has a value of its
// own, which only that replica reads and changes in replica context. The variable has the shape
// [replicas, ...], with one row for each replica. Readers outside the replicas (the coordinator, a
// checkpoint, an export) see one value, which the aggregation makes from the rows:
//
//   SUM                 the sum of the rows; a new value is divided among the replicas
//   MEAN                the mean of the rows; a new value is given to every replica
//   ONLY_FIRST_REPLICA  the first row; a new value is given to every replica
//   NONE                no value: reading the variable, and setting its value, are errors
//
// Whole numbers are divided as in TensorFlow: the remainder is lost.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns the variable's shape as a graph and a user see it: without the axis of the replicas.
Shape ValueShape(const proto::VariableLayout& layout);

// The variable to which rows of replicas belong.
struct ReplicaRows {
  const std::string& variable;
  proto::VariableAggregation aggregation;
};

// Returns the one value that the aggregation makes from the rows. Errors: INVALID_ARGUMENT that
// names the variable and says what to do, if the aggregation makes no value.
absl::StatusOr<Tensor> ValueOfRows(const ReplicaRows& of, const Tensor& rows);

// Returns rows for `replicas` replicas whose aggregation gives `value`.
Tensor RowsOfValue(const ReplicaRows& of, const Tensor& value, int64_t replicas);

// Returns a tensor [replicas, ...] in which every row is `row`.
Tensor RowsWithEach(const Tensor& row, int64_t replicas);

// Returns the row of one replica as a tensor that shares the memory of `rows`.
Tensor RowOfReplica(const Tensor& rows, int64_t replica);

}  // namespace cohort
