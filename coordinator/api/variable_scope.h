#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/api/variable.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

class ClusterCoordinator;

// Variables made through a scope go to the parameter servers, one after another as the
// coordinator's placement says (strategy/placer.h); colocated ones are never partitioned.
// Thread-compatible; the coordinator outlives it.
class VariableScope {
 public:
  // Errors: INVALID_ARGUMENT (variable_creator.h); what the parameter servers answer.
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec);
  // Returns a scope whose variables live beside `variable`.
  VariableScope ColocateVarsWith(const Variable& variable) const;

 private:
  friend class ClusterCoordinator;
  VariableScope(ClusterCoordinator& coordinator, proto::UpdateRule rule)
      : coordinator_(coordinator), rule_(std::move(rule)) {}

  ClusterCoordinator& coordinator_;
  proto::UpdateRule rule_;
  VariableOptions options_;
};

}  // namespace cohort
