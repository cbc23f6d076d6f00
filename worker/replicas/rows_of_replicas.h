#pragma once

// The rows that replicas assign or add to a variable of which each has a value of its own
// (common/program/replica_rows.h): each brings its row, and together they are the whole variable.
// In a gang every worker brings the rows of its replicas and the neutral element for the others, so
// that the sum over workers is the whole, bit for bit. A replica that did not run keeps its row.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

struct RowsHere {
  int64_t first = 0;        // number of this worker's first replica
  int64_t all = 1;          // replicas that run, on all workers
  bool brings_rest = true;  // the rows of those that do not run: one worker does
};

// Returns this worker's rows. `values`: one of each replica that ran here. `before`: the rows
// before an assignment; empty: an addition, which begins with zeros. Errors: INVALID_ARGUMENT
// naming the variable, for a value of another type or shape.
absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values);

}  // namespace cohort
