#pragma once

// The placement of a plan as `coordinator --print_plan` shows it: the bytes on each parameter
// server, and the server of each piece with the reason for it.

#include <string>

#include "coordinator/strategy/strategy.h"

namespace cohort {

enum class PlanFormat { kText, kJson };

// Returns the text of a plan that was made with `spec` for `cluster`.
std::string PlanToText(const Plan& plan, const StrategySpec& spec, const ClusterShape& cluster,
                       PlanFormat format);

}  // namespace cohort
