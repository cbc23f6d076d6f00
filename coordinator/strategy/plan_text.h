#pragma once

// The text that `coordinator --print_plan` prints for a plan: the bytes on each parameter server,
// and for each piece its server and the reason for that choice.

#include <string>

#include "coordinator/strategy/strategy.h"

namespace cohort {

enum class PlanFormat { kText, kJson };

// Returns the plan as text or JSON. `spec` and `cluster` are those for which it was made.
std::string PlanToText(const Plan& plan, const StrategySpec& spec, const ClusterShape& cluster,
                       PlanFormat format);

}  // namespace cohort
