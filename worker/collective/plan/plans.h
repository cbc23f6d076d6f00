#pragma once

// The algorithms: pure functions from facts that all ranks know to the plan of one rank. S is the
// size of the data in bytes, n the number of ranks; a step is a message that waits for the one
// before.
//
//   one-shot            1 step               (n-1) S sent
//   two-shot            2 steps              2 (n-1)/n S
//   recursive doubling  ceil(log2 n) steps   about log2 n S
//   ring                2 (n-1) steps        2 (n-1)/n S, to one neighbour
//   hierarchical        4 steps              within a host of m ranks 2 (m-1)/m S, across H hosts
//                                            2 (H-1)/H S for all ranks of a host together
//
// The ring is Patarasuk and Yuan's; its chunks, and the rank where each sum starts, are those of
// TensorFlow's RING. The binary tree of broadcasts is that of TensorFlow's
// HierarchicalTreeBroadcaster for one device per task. Recursive doubling is from Thakur,
// Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005;
// here a rank without a partner gets the partner's value from another rank of the partner's block,
// so any n takes ceil(log2 n) steps and sums in the order of reduce_tree.h. The barrier is the
// dissemination barrier of Hensgen, Finkel and Manber, 1988.

#include <vector>

#include "worker/collective/plan/plan.h"

namespace cohort {

// The hosts of the ranks of a group.
struct HostLayout {
  // The host of each rank; hosts are numbered in the order of their first ranks.
  std::vector<int> host_of;
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
// Returns the plan of a hierarchical all-reduce. Must not be called if RanksPerHostBlock() is 0.
RankPlan HierarchicalAllReduce(const PlanInput& in);

RankPlan DirectReduceScatter(const PlanInput& in);
RankPlan RingReduceScatter(const PlanInput& in);
RankPlan DirectAllGather(const PlanInput& in);
RankPlan RingAllGather(const PlanInput& in);
RankPlan DirectAllToAll(const PlanInput& in);

RankPlan TreeBroadcast(const PlanInput& in);
RankPlan ChainBroadcast(const PlanInput& in);
RankPlan TreeReduce(const PlanInput& in);
// A reduce-scatter whose parts are then sent to the call's root.
RankPlan ScatteredReduce(const PlanInput& in);

RankPlan DisseminationBarrier(const PlanInput& in);

// Returns a plan that moves no elements. When a rank has carried it out, it knows that all ranks
// have started the same call. In an all-to-all, every two ranks hear from each other first, because
// the counts of an all-to-all are compared in pairs of ranks.
RankPlan AgreementPlan(const PlanInput& in);

// Returns the plan of a call by `algorithm`, a result of ChooseAlgorithm() (algorithm_choice.h).
RankPlan PlanOf(const PlanInput& in, CollectiveAlgorithm algorithm);

// Returns the number of ranks of a host if every host is a subtree of the summation tree: adjacent
// ranks, and the same power of two (at least 2) on each host, except that the last host may have
// fewer. Returns 0 otherwise, and 0 if there is only one host.
int RanksPerHostBlock(const HostLayout& hosts);

}  // namespace cohort
