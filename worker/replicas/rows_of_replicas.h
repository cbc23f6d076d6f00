#pragma once

// The rows that replicas assign or add to a variable that has a value for each replica
// (common/program/replica_rows.h). Each replica provides its row, and the rows together are the
// whole variable. In a gang, every worker provides the rows of its replicas and neutral elements
// for the other rows, so the sum over workers is the whole variable, bit for bit. A replica that
// did not run keeps its row.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

// This worker's place among all replicas of the run.
struct RowsHere {
  int64_t first = 0;  // number of this worker's first replica
  int64_t all = 1;    // number of replicas that run, on all workers
  // True on the one worker that provides the old rows of replicas that do not run.
  bool brings_rest = true;
};

// Returns this worker's rows. `values` has one value of each replica that ran here. `before` has
// the rows before an assignment; an empty `before` means an addition, which begins with zeros.
// Errors: INVALID_ARGUMENT naming the variable, for a value of another type or shape.
absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values);

}  // namespace cohort
