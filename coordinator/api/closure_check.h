#pragma once

#include <cstddef>
#include <cstdint>
// Checks that Schedule makes of a closure before it takes it.

#include "absl/status/status.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/schedule_options.h"

namespace cohort {

// Upper bound of the steps of one closure: its answer carries what all of them fetch.
inline constexpr size_t kClosureStepsMax = 4096;

struct ClosureRules {
  const ClusterCoordinatorOptions& options;
  uint64_t owner = 0;  // the coordinator whose handles it takes
};

// Errors: INVALID_ARGUMENT naming what is missing, another coordinator's, without value or against
// the rules of rounds and gangs, and what to do.
absl::Status CheckClosure(const RegisteredProgram* program, const ScheduleOptions& closure,
                          const ClosureRules& rules);

}  // namespace cohort
