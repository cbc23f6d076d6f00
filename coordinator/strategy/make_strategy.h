#pragma once

// The strategies by the name that a job file has for them.

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Makes the strategy that the job's field `strategy` describes. Errors: INVALID_ARGUMENT for an
// unknown type, naming the known types, and for wrong options.
absl::StatusOr<std::unique_ptr<const Strategy>> MakeStrategy(const StrategySpec& spec);

}  // namespace cohort
