#pragma once

// The choice of the algorithm of a call. It depends only on facts that all ranks know before the
// call: operation, type, bytes, number of ranks, and which ranks share a host. Nothing is measured
// at run time, so two runs sum in the same order. The sizes at which the choice changes come from
// measurements of the time of a step (70 to 140 us) and the bandwidth (1 to 1.3 GB/s) over gRPC:
// docs/DECISIONS.md.

#include "worker/collective/plan/plans.h"

namespace cohort {

// Returns the algorithm for a call: the one that the call asks for, or a choice of its own if the
// call asks for kAuto. The result is never kAuto.
CollectiveAlgorithm ChooseAlgorithm(const PlanInput& in);

// Checks the algorithm that the call asks for. Errors: INVALID_ARGUMENT if the operation has no
// such algorithm, or if the algorithm is hierarchical and RanksPerHostBlock() is 0.
absl::Status CheckAlgorithm(const PlanInput& in);

}  // namespace cohort
