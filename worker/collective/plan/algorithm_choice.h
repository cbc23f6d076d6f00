#pragma once

// The choice of the algorithm. It depends only on what all ranks know before the call: operation,
// type, bytes, number of ranks, and how ranks lie on hosts. Nothing is measured at run time, so two
// runs sum in the same order. The borders come from measurements of the step and the byte over gRPC
// (70 to 140 us, 1 to 1.3 GB/s): docs/DECISIONS.md.

#include <string>

#include "worker/collective/plan/plans.h"

namespace cohort {

struct Choice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  std::string why;  // a sentence for people
};

// Returns an algorithm, never kAuto. A wish other than kAuto is granted as it is.
Choice ChooseAlgorithm(const PlanInput& in);

// Errors: INVALID_ARGUMENT when the operation has no such algorithm, or the hosts are no blocks of
// the tree.
absl::Status CheckAlgorithm(const PlanInput& in);

// Returns, in some lines, which algorithm runs for an all-reduce (or another operation) of this
// size, and why.
std::string ExplainChoice(const PlanInput& in);

}  // namespace cohort
