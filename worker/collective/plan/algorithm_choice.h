#pragma once

// The choice of the algorithm of a call. The choice depends only on facts that all ranks know
// before the call: operation, type, bytes, number of ranks, and which ranks share a host. Nothing
// is measured at run time, so two runs sum in the same order. The size limits between algorithms
// come from measurements over gRPC of the time of a step (70 to 140 us) and the bandwidth (1 to 1.3
// GB/s): docs/DECISIONS.md.

#include "worker/collective/plan/plans.h"

namespace cohort {

// Returns the algorithm for a call, never kAuto. Returns the algorithm that the call asks for,
// unless the call asks for kAuto.
CollectiveAlgorithm ChooseAlgorithm(const PlanInput& in);

// Checks the algorithm that the call asks for. Errors: INVALID_ARGUMENT if the operation has no
// such algorithm, or if the algorithm is hierarchical and the hosts are not blocks of the summation
// tree.
absl::Status CheckAlgorithm(const PlanInput& in);

}  // namespace cohort
