#include "worker/collective/plan/algorithm_choice.h"

#include "absl/strings/str_cat.h"
#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

using A = CollectiveAlgorithm;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Largest call, in bytes, for one-shot or recursive doubling among any number of ranks.
constexpr int64_t kOneShotBytesMax = 16 * kKiB;
// The largest number of bytes that a rank may send to all other ranks together with the one-shot
// algorithm.
constexpr int64_t kOneShotSentBytesMax = 64 * kKiB;
// Largest call, in bytes, for one-shot between two ranks. Up to this size, a second step takes
// longer than summing the other half of the data, and between two ranks it saves no bytes.
constexpr int64_t kPairOneShotBytesMax = 256 * kKiB;
constexpr int64_t kLocalBytesMin = 64 * kKiB;
// Largest call, in bytes, for two-shot among at most kDirectRanksMax ranks. The limit is above the
// size of gradient buckets (bucket_plan.h), so the division into buckets changes no bit of the
// sums.
constexpr int64_t kTwoShotBytesMax = 16 * kMiB;
// Largest call, in bytes, for two-shot among more than kDirectRanksMax ranks.
constexpr int64_t kCrowdTwoShotBytesMax = 4 * kMiB;
constexpr int64_t kGatherDirectBytesMax = 512 * kKiB;
constexpr int64_t kTreeBytesMax = 64 * kKiB;
// Largest group in which every rank may send to every other rank directly.
constexpr int kDirectRanksMax = 16;

// Returns the size of a call in bytes; for a reduce-scatter or all-gather, that of all ranks' parts
// together.
int64_t BytesOfCall(const CollectiveCall& call) {
  const bool parts = call.op == CollectiveOp::kReduceScatter || call.op == CollectiveOp::kAllGather;
  const int64_t elements = parts ? SumOfCounts(call.counts) : call.count;
  return elements * static_cast<int64_t>(ElementSize(call.dtype));
}

// Chooses the algorithm of an all-reduce: with few steps for small calls, with few bytes for large
// ones.
A ChooseAllReduce(const PlanInput& in, int64_t bytes) {
  const int n = in.size;
  // Ranks that share a host sum there first, if the call is large enough to pay for the extra
  // steps.
  if (RanksPerHostBlock(in.hosts) > 0 && bytes > kLocalBytesMin) return A::kHierarchical;
  // Between two ranks, every algorithm sends equally many bytes.
  if (n == 2 && bytes <= kPairOneShotBytesMax) return A::kOneShot;
  if (bytes <= kOneShotBytesMax && (n - 1) * bytes <= kOneShotSentBytesMax) return A::kOneShot;
  // Small calls cost mainly their number of steps; sending everything to every rank would cost
  // more.
  if (bytes <= kOneShotBytesMax || (n > kDirectRanksMax && bytes <= kLocalBytesMin)) {
    return A::kRecursiveDoubling;
  }
  // Two-shot sends as few bytes as a ring, in two steps.
  const int64_t two_shot_max = n <= kDirectRanksMax ? kTwoShotBytesMax : kCrowdTwoShotBytesMax;
  if (n == 2 || bytes <= two_shot_max) return A::kTwoShot;
  // A ring would send partial sums, which take twice the bytes of 16-bit floats.
  if (IsHalf(in.call.dtype) && n <= kDirectRanksMax) return A::kTwoShot;
  return A::kRing;
}

bool HasAlgorithm(CollectiveOp op, A algorithm) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return algorithm != A::kTree && algorithm != A::kChain;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
      return algorithm == A::kTwoShot || algorithm == A::kRing;
    case CollectiveOp::kBroadcast:
      return algorithm == A::kTree || algorithm == A::kChain;
    case CollectiveOp::kReduce:
      return algorithm == A::kTree || algorithm == A::kTwoShot;
    case CollectiveOp::kAllToAll:
      return algorithm == A::kTwoShot;
    case CollectiveOp::kBarrier:
      return algorithm == A::kRecursiveDoubling;
  }
  return false;
}

}  // namespace

CollectiveAlgorithm ChooseAlgorithm(const PlanInput& in) {
  if (in.call.algorithm != A::kAuto) return in.call.algorithm;
  const int64_t bytes = BytesOfCall(in.call);
  switch (in.call.op) {
    case CollectiveOp::kAllReduce:
      return ChooseAllReduce(in, bytes);
    case CollectiveOp::kReduceScatter:
      return in.size <= kDirectRanksMax ? A::kTwoShot : A::kRing;
    case CollectiveOp::kAllGather:
      return bytes <= kGatherDirectBytesMax ? A::kTwoShot : A::kRing;
    case CollectiveOp::kBroadcast:
      return bytes <= kTreeBytesMax ? A::kTree : A::kChain;
    case CollectiveOp::kReduce:
      return bytes <= kTreeBytesMax ? A::kTree : A::kTwoShot;
    case CollectiveOp::kAllToAll:
      return A::kTwoShot;
    case CollectiveOp::kBarrier:
      return A::kRecursiveDoubling;
  }
  return A::kAuto;
}

absl::Status CheckAlgorithm(const PlanInput& in) {
  const A wish = in.call.algorithm;
  if (wish == A::kAuto) return absl::OkStatus();
  if (!HasAlgorithm(in.call.op, wish)) {
    return absl::InvalidArgumentError(absl::StrCat(DescribeCall(in.call), ": ", OpName(in.call.op),
                                                   " has no algorithm ", AlgorithmName(wish),
                                                   "; leave the choice to auto"));
  }
  if (wish == A::kHierarchical && RanksPerHostBlock(in.hosts) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeCall(in.call),
                     ": hierarchical needs hosts with the same number of ranks each, 2, "
                     "4, 8, ..., in the order of the ranks; leave the choice to auto"));
  }
  return absl::OkStatus();
}

}  // namespace cohort
