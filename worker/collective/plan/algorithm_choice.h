#pragma once

// The choice of the algorithm of a call. The choice depends only on facts that all ranks know
// before the call: operation, type, bytes, number of ranks, and which ranks share a host. Nothing
// is measured at run time, so two runs sum in the same order. The size limits between algorithms
// come from measurements over gRPC of the time of a step (70 to 140 us) and the bandwidth (1 to 1.3
// GB/s): docs/DECISIONS.md.

#include <string>

#include "worker/collective/plan/plans.h"

namespace cohort {

struct Choice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  std::string why;  // the reason of the choice, a sentence for people
};

// Returns the algorithm for a call, never kAuto. Returns the algorithm that the call asks for,
// unless the call asks for kAuto.
Choice ChooseAlgorithm(const PlanInput& in);

// Checks the algorithm that the call asks for. Errors: INVALID_ARGUMENT if the operation has no
// such algorithm, or if the algorithm is hierarchical and the hosts are not blocks of the summation
// tree.
absl::Status CheckAlgorithm(const PlanInput& in);

// Returns a text of a few lines that says which algorithm runs for the call, and why.
std::string ExplainChoice(const PlanInput& in);

}  // namespace cohort
