#include "worker/collective/plan/plans.h"

#include "common/base/check.h"

namespace cohort {

namespace {

// Returns the plan of a group of one rank: the output is a copy of the input.
RankPlan AlonePlan(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = OutputElements(in.call, 0);
  plan.CopyInto(PlanBuilder::Input(0, count), PlanBuilder::Output(0, count));
  return std::move(plan).Finish();
}

RankPlan AllReducePlan(const PlanInput& in, CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kOneShot:
      return OneShotAllReduce(in);
    case CollectiveAlgorithm::kRecursiveDoubling:
      return RecursiveDoublingAllReduce(in);
    case CollectiveAlgorithm::kRing:
      return RingAllReduce(in);
    case CollectiveAlgorithm::kHierarchical:
      return HierarchicalAllReduce(in);
    // Only two-shot is left, because CheckAlgorithm refuses tree and chain for an all-reduce.
    default:
      return TwoShotAllReduce(in);
  }
}

}  // namespace

RankPlan PlanOf(const PlanInput& in, CollectiveAlgorithm algorithm) {
  if (in.size == 1) return AlonePlan(in);
  const bool ring = algorithm == CollectiveAlgorithm::kRing;
  const bool tree = algorithm == CollectiveAlgorithm::kTree;
  switch (in.call.op) {
    case CollectiveOp::kAllReduce:
      return AllReducePlan(in, algorithm);
    case CollectiveOp::kReduceScatter:
      return ring ? RingReduceScatter(in) : DirectReduceScatter(in);
    case CollectiveOp::kAllGather:
      return ring ? RingAllGather(in) : DirectAllGather(in);
    case CollectiveOp::kBroadcast:
      return tree ? TreeBroadcast(in) : ChainBroadcast(in);
    case CollectiveOp::kReduce:
      return tree ? TreeReduce(in) : ScatteredReduce(in);
    case CollectiveOp::kAllToAll:
      return DirectAllToAll(in);
    case CollectiveOp::kBarrier:
      return DisseminationBarrier(in);
  }
  COHORT_CHECK(false, "an operation of the enumeration");
}

}  // namespace cohort
