#pragma once

// The rules by which results of replicas become one. Sums are taken in one order, that of a
// balanced binary tree over the replicas' ranks: (r0 + r1) + (r2 + r3), and so on; a replica that
// did not run has no leaf. So the bits of a result depend on the replicas' parts of the batch
// alone, not on which replica was done first.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/tensor/tensor.h"

namespace cohort {

enum class JoinRule {
  kEach,  // all of them
  kSum,
  kRows,        // one behind the other along axis 0
  kMean,        // the mean over as many as ran
  kOfExamples,  // the mean over the examples of the batch, of means over each replica's
  kFirst,
  kReplicaRows,  // each is its replica's row of a variable (rows_of_replicas.h)
};
inline bool IsSum(JoinRule rule) {
  return rule == JoinRule::kSum || rule == JoinRule::kMean || rule == JoinRule::kOfExamples;
}

// Returns whether each replica's values stay in the result.
inline bool IsGathered(JoinRule rule) { return rule == JoinRule::kEach || rule == JoinRule::kRows; }

// Returns the factor of a replica's tensor before the sum; 1 if it is not weighed.
float LeafWeight(JoinRule rule, int64_t examples, int64_t all_examples, int64_t replicas);

// Checks values that are to be added up. Errors: INVALID_ARGUMENT for another type or shape.
absl::Status CheckFit(const Tensor& a, const Tensor& b);

// Writes so many elements that change no number that they are added to.
void FillNeutral(DType dtype, int64_t elements, std::byte* out);

// Writes `value` times `weight` into `own`, which has its type and shape. Errors: INVALID_ARGUMENT
// for a weight on a type other than float32.
absl::Status WeighInto(const Tensor& value, float weight, Tensor& own);

// Returns the weighted value in a tensor of its own, for JoinReplicas to write into.
absl::StatusOr<Tensor> Weighted(const Tensor& value, float weight, OutputPool& pool);

// Joins `values`, one from each replica that ran, by rank, at least one. The values of a sum of
// more than one are what Weighted returned, and are written to. One value alone is returned as it
// is, whatever the rule. Errors: INVALID_ARGUMENT for shapes or types that do not fit together.
absl::StatusOr<std::vector<Tensor>> JoinReplicas(JoinRule rule, std::vector<Tensor> values);

}  // namespace cohort
