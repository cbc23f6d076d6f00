#pragma once

// The algorithms: pure functions from what all ranks know to one rank's plan. S is the size of the
// data in bytes, n the number of ranks; steps are messages that wait for each other.
//
//   one-shot            1 step               (n-1) S sent
//   two-shot            2 steps              2 (n-1)/n S
//   recursive doubling  ceil(log2 n) steps   about log2 n S
//   ring                2 (n-1) steps        2 (n-1)/n S, to one neighbour
//   hierarchical        4 steps              within a host 2 (m-1)/m S, across H hosts 2 (H-1)/H S
//                                            for all ranks of a host together
//
// The ring is Patarasuk and Yuan's, with the chunks and the start of each sum as TensorFlow's
// RING has them. The binary tree of broadcasts is TensorFlow's HierarchicalTreeBroadcaster's for
// one device per task. Recursive doubling: Thakur, Rabenseifner and Gropp, "Optimization of
// Collective Communication Operations in MPICH", 2005; here a rank without a partner is served by
// another of the partner's block, so that any n takes ceil(log2 n) steps and sums in the tree's
// order. The barrier is the dissemination barrier of Hensgen, Finkel and Manber, 1988.

#include <vector>

#include "worker/collective/plan/plan.h"

namespace cohort {

// The grouping of ranks into hosts.
struct HostLayout {
  std::vector<int> host_of;  // the host of each rank, counted from 0 in the order of the ranks
};

struct PlanInput {
  const CollectiveCall& call;
  int rank = 0;
  int size = 1;
  const HostLayout& hosts;
};

RankPlan OneShotAllReduce(const PlanInput& in);
RankPlan TwoShotAllReduce(const PlanInput& in);
RankPlan RecursiveDoublingAllReduce(const PlanInput& in);
RankPlan RingAllReduce(const PlanInput& in);
// Makes a plan; RanksPerHostBlock must not be 0.
RankPlan HierarchicalAllReduce(const PlanInput& in);

RankPlan DirectReduceScatter(const PlanInput& in);
RankPlan RingReduceScatter(const PlanInput& in);
RankPlan DirectAllGather(const PlanInput& in);
RankPlan RingAllGather(const PlanInput& in);
RankPlan DirectAllToAll(const PlanInput& in);

RankPlan TreeBroadcast(const PlanInput& in);
RankPlan ChainBroadcast(const PlanInput& in);
RankPlan TreeReduce(const PlanInput& in);
RankPlan ScatteredReduce(const PlanInput& in);  // reduce-scatter, then gathered by the root

RankPlan DisseminationBarrier(const PlanInput& in);

// Makes a plan that moves nothing; a rank that has carried it out knows that all ranks have started
// the same call. The ranks of an all-to-all hear of each other first, because their counts are
// compared in pairs.
RankPlan AgreementPlan(const PlanInput& in);

// Makes the plan of a call by an algorithm that AlgorithmFor returned (algorithm_choice.h).
RankPlan PlanOf(const PlanInput& in, CollectiveAlgorithm algorithm);

// Returns how many ranks each host has, if the hosts are blocks of the tree: the same power of two
// on each but the last, which may have fewer. Returns 0 otherwise, and for one host or hosts of one
// rank.
int RanksPerHostBlock(const HostLayout& hosts);

}  // namespace cohort
