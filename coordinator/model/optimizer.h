#pragma once

// Keras's optimizer as an update rule for the ps.

#include <vector>

#include "absl/status/status.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Parameters sorted by name. The learning rate is not part of the rule: it travels in the push.
// The sparse mode is that of a variable.
proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer);

// Checks that there is something to train and sets the variables' sparse modes; neither depends on
// any shape. Errors: INVALID_ARGUMENT if no variable is trainable, for a name that no trainable
// variable has, and for a mode that the optimizer or a dynamic table cannot have.
absl::Status SetUpdates(const OptimizerSpec& optimizer, std::vector<VariableSpec>& variables);

}  // namespace cohort
