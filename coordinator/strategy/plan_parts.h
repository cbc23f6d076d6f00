#pragma once

// What planners have in common.

#include "absl/status/statusor.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

// Layouts of the model's variables, in creation order; those that are trained have its rule.
absl::StatusOr<std::vector<proto::VariableLayout>> LayOutVariables(const ModelPrograms& model,
                                                                   VariableCreator& creator);

// Errors: INVALID_ARGUMENT naming a program that is bound to a variable that the model does not
// have.
absl::Status CheckPrograms(const ModelPrograms& model);

}  // namespace cohort
