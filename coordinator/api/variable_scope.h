#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/api/variable.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

class ClusterCoordinator;

// A scope whose new variables live on the parameter servers. Each variable is placed by the
// coordinator's placement policy (strategy/placer.h); colocated variables are never partitioned.
// Thread-compatible; the coordinator outlives it.
class VariableScope {
 public:
  // Creates a variable on its homes. Errors: INVALID_ARGUMENT (variable_creator.h); those that the
  // parameter servers answer.
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec);
  // Returns a scope whose new variables live on the same parameter servers as `variable`.
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
