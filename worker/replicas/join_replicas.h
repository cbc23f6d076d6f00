#pragma once

// The rules by which values of replicas are joined into one result. Sums have one order, that of a
// balanced binary tree over the replicas: (r0 + r1) + (r2 + r3), and so on. A replica that did not
// run is not in the tree. So the bits of a sum depend only on how the batch was divided, and not on
// which replica finished first.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct VariableType;

enum class JoinRule {
  kEach,  // keeps the list of all values
  kSum,
  kRows,  // concatenates all values along axis 0
  kMean,  // makes the mean over the replicas that ran
  // The mean over the examples of the batch, from each replica's mean over its own examples.
  kOfExamples,
  kFirst,
  kReplicaRows,  // puts each replica's value into its row of a variable (RowsOfReplicas)
};
inline bool IsSum(JoinRule rule) {
  return rule == JoinRule::kSum || rule == JoinRule::kMean || rule == JoinRule::kOfExamples;
}

// Returns true if the joined result still has the value of each replica.
inline bool IsGathered(JoinRule rule) { return rule == JoinRule::kEach || rule == JoinRule::kRows; }

// Returns the factor by which the value of a replica with `examples` examples is multiplied before
// values are summed; 1 for rules other than kMean and kOfExamples. `replicas` is the number of
// replicas that run.
float LeafWeight(JoinRule rule, int64_t examples, int64_t all_examples, int64_t replicas);

// Checks that two values can be added. Errors: INVALID_ARGUMENT if their types or shapes differ.
absl::Status CheckFit(const Tensor& a, const Tensor& b);

// Writes `elements` neutral elements to `out`. Adding a neutral element changes no number.
void FillNeutral(DType dtype, int64_t elements, std::byte* out);

// Writes `value` times `weight` into `own`, which has the same type and shape. Errors:
// INVALID_ARGUMENT if the weight is not 1 and the type is not float32.
absl::Status WeighInto(const Tensor& value, float weight, Tensor& own);

// Returns `value` times `weight` in a new tensor in the pool's memory. Errors: those of
// WeighInto().
absl::StatusOr<Tensor> Weighted(const Tensor& value, float weight, OutputPool& pool);

// Joins `values`, in the order of the replicas; each replica that ran has one, and there is at
// least one. To be summed, several values must come from Weighted(), because JoinReplicas() writes
// over them. A single value is returned as it is, whatever the rule. Errors: INVALID_ARGUMENT for
// values whose shapes or types do not fit together.
absl::StatusOr<std::vector<Tensor>> JoinReplicas(JoinRule rule, std::vector<Tensor> values);

// The rows that replicas assign or add to a variable with one row per replica
// (common/program/aggregation.h). Each replica computes its own row, and the rows together are the
// whole variable. In a gang, every worker gives the rows of its replicas and neutral elements for
// all other rows, so the sum over the workers is the whole variable, bit for bit. A replica that
// did not run keeps its row.

// The rows of the variable that this worker gives.
struct RowsHere {
  int64_t first = 0;  // index of this worker's first replica among all replicas
  int64_t all = 1;    // number of replicas that run, on all workers
  // True on one worker of the gang: this worker also gives the rows of replicas that do not run.
  bool brings_rest = true;
};

// Returns the whole variable, with neutral elements in the rows that this worker does not give.
// `values` has one value for each replica that ran here. `before` is the variable before an
// assignment, or empty if the rows are added to the variable. Errors: INVALID_ARGUMENT naming the
// variable, for a value of another type or shape.
absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values);

}  // namespace cohort
