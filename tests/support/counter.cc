#include "tests/support/counter.h"

#include <utility>

#include "common/base/status.h"
#include "tests/support/test_programs.h"

namespace cohort {

absl::StatusOr<Counter> MakeCounter(ClusterCoordinator& coordinator) {
  VariableSpec spec;
  spec.name = "counter";
  spec.initializer.set_op("zeros");
  ASSIGN_OR_RETURN(Variable variable, coordinator.Scope(AssignAdd()).CreateVariable(spec));
  ASSIGN_OR_RETURN(ProgramHandle increment, coordinator.Register(IncrementProgram(spec.name)));
  return Counter{std::move(variable), std::move(increment)};
}

}  // namespace cohort
