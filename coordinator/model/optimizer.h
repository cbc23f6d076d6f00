#pragma once

// Turns Keras's optimizer into an update rule for the ps.

#include <vector>

#include "absl/status/status.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/layers/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Makes the rule, with its parameters sorted by name. The learning rate is not part of the rule,
// because it travels in the push. The sparse mode is set per variable.
proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer);

// Checks that at least one variable is trainable, and sets the variables' sparse modes; neither
// depends on any shape. Sets the rules of variables that the optimizer treats in another way than
// the rest: those that exclude_from_weight_decay names, and those that Muon leaves to AdamW.
// Errors: INVALID_ARGUMENT if no variable is trainable, for a name that is
// not a trainable variable's, and for a mode that the optimizer or a dynamic table does not
// support.
absl::Status SetUpdates(const OptimizerSpec& optimizer, std::vector<VariableSpec>& variables);

}  // namespace cohort
