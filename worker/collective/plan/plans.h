#pragma once

// The algorithms: pure functions from facts that all ranks know to one rank's plan. S is the size
// of the data in bytes, n the number of ranks; steps are messages that wait for each other.
//
//   one-shot            1 step               (n-1) S sent
//   two-shot            2 steps              2 (n-1)/n S
//   recursive doubling  ceil(log2 n) steps   about log2 n S
//   ring                2 (n-1) steps        2 (n-1)/n S, to one neighbour
//   hierarchical        4 steps              within a host of m ranks 2 (m-1)/m S, across H hosts
//                                            2 (H-1)/H S for all ranks of a host together
//
// The ring is Patarasuk and Yuan's; its chunks and the rank where each sum starts are those of
// TensorFlow's RING. The binary tree of broadcasts is the tree of TensorFlow's
// HierarchicalTreeBroadcaster for one device per task. Recursive doubling: Thakur, Rabenseifner and
// Gropp, "Optimization of Collective Communication Operations in MPICH", 2005; in this version a
// rank without a partner gets the partner's value from another rank of the partner's block, so any
// n takes ceil(log2 n) steps and sums in the order of reduce_tree.h. The barrier is the
// dissemination barrier of Hensgen, Finkel and Manber, 1988.

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
// Returns the plan of a hierarchical all-reduce; RanksPerHostBlock must not be 0.
RankPlan HierarchicalAllReduce(const PlanInput& in);

RankPlan DirectReduceScatter(const PlanInput& in);
RankPlan RingReduceScatter(const PlanInput& in);
RankPlan DirectAllGather(const PlanInput& in);
RankPlan RingAllGather(const PlanInput& in);
RankPlan DirectAllToAll(const PlanInput& in);

RankPlan TreeBroadcast(const PlanInput& in);
RankPlan ChainBroadcast(const PlanInput& in);
RankPlan TreeReduce(const PlanInput& in);
RankPlan ScatteredReduce(const PlanInput& in);  // reduce-scatter, then the root gathers the parts

RankPlan DisseminationBarrier(const PlanInput& in);

// Returns a plan that moves no elements. A rank that has carried out the plan knows that all ranks
// have started the same call. In an all-to-all every two ranks hear from each other first, because
// the counts of an all-to-all are compared in pairs.
RankPlan AgreementPlan(const PlanInput& in);

// Returns the plan of a call by an algorithm that ChooseAlgorithm returned (algorithm_choice.h).
RankPlan PlanOf(const PlanInput& in, CollectiveAlgorithm algorithm);

// Returns how many ranks each host has, if the hosts are blocks of the summation tree: each host
// has the same power of two of ranks, except that the last host may have fewer. Returns 0
// otherwise, and for a single host or hosts of one rank each.
int RanksPerHostBlock(const HostLayout& hosts);

}  // namespace cohort
