#pragma once

// A plan's placement as `coordinator --print_plan` shows it: bytes per parameter server, and for
// each piece where it goes and why.

#include <string>

#include "coordinator/strategy/strategy.h"

namespace cohort {

enum class PlanFormat { kText, kJson };

// Returns text for a plan that was made with `spec` for `cluster`.
std::string PlanToText(const Plan& plan, const StrategySpec& spec, const ClusterShape& cluster,
                       PlanFormat format);

}  // namespace cohort
