#pragma once

// Variables of synchronization ON_READ (VariableLayout.replicas): each replica has a value of its
// own, which it alone reads and changes in replica context. The variable is [replicas, ...], a row
// for each. Who is no replica (the coordinator, a checkpoint, an export) sees one value, which the
// aggregation makes of the rows:
//
//   SUM                 their sum; a value that is given is divided among the replicas
//   MEAN                their mean; a value that is given is every replica's
//   ONLY_FIRST_REPLICA  the first row; a value that is given is every replica's
//   NONE                none: reading it and giving one is an error
//
// Whole numbers are divided as in TensorFlow: what is left over is lost.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns the variable's shape as a graph and a user know it, with or without rows of replicas.
Shape ValueShape(const proto::VariableLayout& layout);

// The variable that rows of replicas belong to.
struct ReplicaRows {
  const std::string& variable;
  proto::VariableAggregation aggregation;
};

// Returns the one value that the rows amount to. Errors: INVALID_ARGUMENT naming the variable and
// what to do, if there is none.
absl::StatusOr<Tensor> ValueOfRows(const ReplicaRows& of, const Tensor& rows);

// Returns the rows of so many replicas that amount to this value.
Tensor RowsOfValue(const ReplicaRows& of, const Tensor& value, int64_t replicas);

// Returns [replicas, ...] with `row` in each row.
Tensor RowsWithEach(const Tensor& row, int64_t replicas);

// Returns a replica's own value; shares the memory.
Tensor RowOfReplica(const Tensor& rows, int64_t replica);

}  // namespace cohort
