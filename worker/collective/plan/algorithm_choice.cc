#include "worker/collective/plan/algorithm_choice.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

using A = CollectiveAlgorithm;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// The call sizes in bytes up to which, or from which, an algorithm is chosen (algorithm_choice.h).
constexpr int64_t kOneShotBytesMax = 16 * kKiB;
// The upper bound of the bytes that a rank sends to all other ranks together in one-shot.
constexpr int64_t kOneShotSentBytesMax = 64 * kKiB;
// The largest call in bytes for one-shot between two ranks. Up to this size a second step takes
// longer than summing the other half of the data, and the second step would not reduce the bytes
// that are sent.
constexpr int64_t kPairOneShotBytesMax = 256 * kKiB;
constexpr int64_t kLocalBytesMin = 64 * kKiB;
// The largest call in bytes for two-shot. This limit lies above the size of gradient buckets
// (bucket_plan.h), so the grouping of gradients into buckets changes no bit of their sums.
constexpr int64_t kTwoShotBytesMax = 16 * kMiB;
// The largest call in bytes for two-shot among more than kDirectRanksMax ranks.
constexpr int64_t kCrowdTwoShotBytesMax = 4 * kMiB;
constexpr int64_t kGatherDirectBytesMax = 512 * kKiB;
constexpr int64_t kTreeBytesMax = 64 * kKiB;
// Up to this number of ranks, every rank may send to every other rank directly.
constexpr int kDirectRanksMax = 16;

std::string Size(int64_t bytes) {
  if (bytes >= kMiB && bytes % kMiB == 0) return absl::StrCat(bytes / kMiB, " MiB");
  if (bytes >= kKiB && bytes % kKiB == 0) return absl::StrCat(bytes / kKiB, " KiB");
  return absl::StrCat(bytes, " bytes");
}

// Returns the size of a call in bytes; for a reduce-scatter or all-gather, of the parts of all
// ranks.
int64_t BytesOfCall(const CollectiveCall& call) {
  const bool parts = call.op == CollectiveOp::kReduceScatter || call.op == CollectiveOp::kAllGather;
  const int64_t elements =
      parts ? std::accumulate(call.counts.begin(), call.counts.end(), int64_t{0}) : call.count;
  return elements * static_cast<int64_t>(ElementSize(call.dtype));
}

// Chooses the algorithm of an all-reduce: small calls save steps, large calls save bytes.
Choice ChooseAllReduce(const PlanInput& in, int64_t bytes) {
  const int n = in.size;
  if (RanksPerHostBlock(in.hosts) > 0 && bytes > kLocalBytesMin) {
    return {A::kHierarchical, absl::StrCat("several ranks share each host, and above ",
                                           Size(kLocalBytesMin), " it pays to sum there first")};
  }
  if (n == 2 && bytes <= kPairOneShotBytesMax) {
    return {A::kOneShot,
            absl::StrCat("two ranks send as much by any algorithm, and up to ",
                         Size(kPairOneShotBytesMax), " a second step costs more than it saves")};
  }
  if (bytes <= kOneShotBytesMax && (n - 1) * bytes <= kOneShotSentBytesMax) {
    return {A::kOneShot, absl::StrCat("up to ", Size(kOneShotBytesMax),
                                      " the number of steps is what costs, and this has one")};
  }
  if (bytes <= kOneShotBytesMax || (n > kDirectRanksMax && bytes <= kLocalBytesMin)) {
    return {A::kRecursiveDoubling,
            absl::StrCat("the number of steps is what costs, and everything to each of ", n - 1,
                         " ranks would be over ", Size(kOneShotSentBytesMax))};
  }
  const int64_t two_shot_max = n <= kDirectRanksMax ? kTwoShotBytesMax : kCrowdTwoShotBytesMax;
  if (n == 2 || bytes <= two_shot_max) {
    return {A::kTwoShot, "it sends as little as a ring and has two steps"};
  }
  // A ring would send partial sums, which take twice the bytes of 16-bit floats.
  if (IsHalf(in.call.dtype) && n <= kDirectRanksMax) {
    return {A::kTwoShot, absl::StrCat("partial sums of ", DTypeName(in.call.dtype),
                                      " travel as float32, and here there are none")};
  }
  return {A::kRing, absl::StrCat("above ", Size(two_shot_max), " each of ", n,
                                 " ranks sends to one neighbour only; the order of summation is "
                                 "the ring's")};
}

// Chooses the algorithm of a broadcast or a reduce.
Choice ChooseRooted(const PlanInput& in, int64_t bytes) {
  if (bytes <= kTreeBytesMax) {
    return {A::kTree,
            absl::StrCat("up to ", Size(kTreeBytesMax), " the number of steps is what costs")};
  }
  if (in.call.op == CollectiveOp::kBroadcast) {
    return {A::kChain, absl::StrCat("above ", Size(kTreeBytesMax),
                                    " segments follow each other and each rank sends them once")};
  }
  return {A::kTwoShot, absl::StrCat("above ", Size(kTreeBytesMax),
                                    " each rank sums a part, which the root gathers")};
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

Choice ChooseAlgorithm(const PlanInput& in) {
  if (in.call.algorithm != A::kAuto) return {in.call.algorithm, "the call asks for it"};
  const int64_t bytes = BytesOfCall(in.call);
  switch (in.call.op) {
    case CollectiveOp::kAllReduce:
      return ChooseAllReduce(in, bytes);
    case CollectiveOp::kReduceScatter:
      if (in.size <= kDirectRanksMax) {
        return {A::kTwoShot, absl::StrCat("up to ", kDirectRanksMax, " ranks send each other")};
      }
      return {A::kRing, absl::StrCat("above ", kDirectRanksMax, " ranks each has one neighbour")};
    case CollectiveOp::kAllGather:
      if (bytes <= kGatherDirectBytesMax) {
        return {A::kTwoShot, absl::StrCat("up to ", Size(kGatherDirectBytesMax),
                                          " the number of steps is what costs")};
      }
      return {A::kRing, "each part is handed on as it came"};
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
      return ChooseRooted(in, bytes);
    case CollectiveOp::kAllToAll:
      return {A::kTwoShot, "every pair exchanges its own data"};
    case CollectiveOp::kBarrier:
      return {A::kRecursiveDoubling, "log2 n rounds"};
  }
  return {};
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

std::string ExplainChoice(const PlanInput& in) {
  const Choice choice = ChooseAlgorithm(in);
  const bool ring = choice.algorithm == A::kRing;
  return absl::StrCat(DescribeCall(in.call), ", ", Size(BytesOfCall(in.call)), ", ", in.size,
                      " ranks: ", AlgorithmName(choice.algorithm), ", because ", choice.why,
                      ".\nOrder of summation: ",
                      ring ? "round the ring from the rank of each chunk, as TensorFlow's RING"
                           : "one balanced binary tree over the ranks",
                      ".\n");
}

}  // namespace cohort
