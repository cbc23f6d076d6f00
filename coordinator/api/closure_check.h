#pragma once

// The checks that ClusterCoordinator::Schedule makes of a closure before it takes the closure into
// the queue.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/api/coordinator_options.h"

namespace cohort {

// The maximum number of steps of one closure. The number is limited because the one answer to the
// closure's call carries what all steps fetch.
inline constexpr size_t kClosureStepsMax = 4096;

struct ClosureRules {
  const ClusterCoordinatorOptions& options;
  uint64_t owner = 0;  // incarnation of the coordinator whose handles the closure may use
};

// Checks a closure before it is scheduled. Errors: INVALID_ARGUMENT for a program, data set,
// iterator or argument that is missing, has no value or belongs to another coordinator, and for a
// closure that breaks the rules of rounds, gangs or several steps. The error text says how to
// correct the call of Schedule.
absl::Status CheckClosure(const RegisteredProgram* program, const ScheduleOptions& closure,
                          const ClosureRules& rules);

}  // namespace cohort
