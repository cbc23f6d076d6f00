#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for an unknown type, naming the known ones, or options that are wrong.
absl::StatusOr<std::unique_ptr<const Strategy>> MakeStrategy(const StrategySpec& spec);

}  // namespace cohort
