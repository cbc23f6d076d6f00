#pragma once

// The rules by which the results of replicas are joined into one. Sums have one order, that of a
// balanced binary tree over the replicas' ranks: (r0 + r1) + (r2 + r3), and so on. A replica that
// did not run has no leaf. So the bits of a result depend only on the replicas' parts of the batch,
// and not on which replica finished first.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct VariableType;

enum class JoinRule {
  kEach,  // keeps all replicas' values
  kSum,
  kRows,  // concatenates the values along axis 0
  kMean,  // makes the mean over the replicas that ran
  // Makes the mean over the examples of the batch from the replicas' means over their own examples.
  kOfExamples,
  kFirst,
  kReplicaRows,  // puts each replica's value into its row of a variable (RowsOfReplicas)
};
inline bool IsSum(JoinRule rule) {
  return rule == JoinRule::kSum || rule == JoinRule::kMean || rule == JoinRule::kOfExamples;
}

// Returns true if the joined result keeps each replica's values.
inline bool IsGathered(JoinRule rule) { return rule == JoinRule::kEach || rule == JoinRule::kRows; }

// Returns the factor by which a replica's tensor is multiplied before the sum; 1 if the rule has no
// weights.
float LeafWeight(JoinRule rule, int64_t examples, int64_t all_examples, int64_t replicas);

// Checks that two values can be added. Errors: INVALID_ARGUMENT for different types or shapes.
absl::Status CheckFit(const Tensor& a, const Tensor& b);

// Writes `elements` neutral elements to `out`. A neutral element changes no number to which it is
// added.
void FillNeutral(DType dtype, int64_t elements, std::byte* out);

// Writes `value` times `weight` into `own`, a tensor of the same type and shape. Errors:
// INVALID_ARGUMENT for a weight other than 1 on a type other than float32.
absl::Status WeighInto(const Tensor& value, float weight, Tensor& own);

// Returns the weighted value in a new tensor, into which JoinReplicas may write.
absl::StatusOr<Tensor> Weighted(const Tensor& value, float weight, OutputPool& pool);

// Joins `values`, one from each replica that ran, at least one, ordered by rank. If several values
// are summed, they must come from Weighted(), because JoinReplicas writes into them. A single value
// is returned as it is, whatever the rule. Errors: INVALID_ARGUMENT for shapes or types that do not
// fit together.
absl::StatusOr<std::vector<Tensor>> JoinReplicas(JoinRule rule, std::vector<Tensor> values);

// The rows that replicas assign or add to a variable that has a value for each replica
// (common/program/aggregation.h). Each replica provides its row, and the rows together are the
// whole variable. In a gang, every worker provides the rows of its replicas and neutral elements
// for the other rows, so the sum over workers is the whole variable, bit for bit. A replica that
// did not run keeps its row.

// The rows of the variable that this worker provides.
struct RowsHere {
  int64_t first = 0;  // index of this worker's first replica among all replicas
  int64_t all = 1;    // number of replicas that run, on all workers
  // True on the one worker that provides the rows of replicas that do not run.
  bool brings_rest = true;
};

// Returns the whole variable with this worker's rows, and neutral elements elsewhere. `values` has
// one value of each replica that ran here. `before` has the rows before an assignment; an empty
// `before` means that rows are added to the variable. Errors: INVALID_ARGUMENT naming the variable,
// for a value of another type or shape.
absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values);

}  // namespace cohort
