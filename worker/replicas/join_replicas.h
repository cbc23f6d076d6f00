#pragma once

// How what replicas compute becomes one. Sums are taken in one order, that of a balanced binary
// tree over the replicas' ranks: (r0 + r1) + (r2 + r3), and so on, where a replica that did not run
// has no leaf. So the bits of a result depend on the replicas' parts of the batch alone, not on
// who was done first.

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
  kMean,        // of as many as ran
  kOfExamples,  // the mean over the examples of the batch, of means over each replica's
  kFirst,
  kReplicaRows,  // each is its replica's row of a variable (rows_of_replicas.h)
};
inline bool IsSum(JoinRule rule) {
  return rule == JoinRule::kSum || rule == JoinRule::kMean || rule == JoinRule::kOfExamples;
}

// What each replica has stays there.
inline bool IsGathered(JoinRule rule) { return rule == JoinRule::kEach || rule == JoinRule::kRows; }

// What a replica's tensor is multiplied with before the sum; 1 where it is not.
float LeafWeight(JoinRule rule, int64_t examples, int64_t all_examples, int64_t replicas);

// Of values that are to be added up. Errors: INVALID_ARGUMENT for another type or shape.
absl::Status CheckFit(const Tensor& a, const Tensor& b);

// So many elements that change no number that they are added to.
void FillNeutral(DType dtype, int64_t elements, std::byte* out);

// Writes `value` times `weight` into `own`, which has its type and shape. Errors: INVALID_ARGUMENT
// for a weight on a type other than float32.
absl::Status WeighInto(const Tensor& value, float weight, Tensor& own);

// The same in a tensor of its own, for JoinReplicas to write into.
absl::StatusOr<Tensor> Weighted(const Tensor& value, float weight, OutputPool& pool);

// `values`: one from each replica that ran, by rank, at least one. Of a sum of more than one they
// are what Weighted gave, and are written to. One alone is given back as it is, whatever the rule.
// Errors: INVALID_ARGUMENT for shapes or types that do not fit together.
absl::StatusOr<std::vector<Tensor>> JoinReplicas(JoinRule rule, std::vector<Tensor> values);

}  // namespace cohort
