#pragma once

// Changes that the coordinator, which is no replica, makes to a variable with a value for each
// replica (common/program/replica_rows.h).

#include "absl/status/statusor.h"
#include "coordinator/homes/ps_control.h"
#include "proto/plan.pb.h"

namespace cohort {

// The change of all rows that it is. As in TensorFlow a sum takes no addition, as nobody could say
// which replica it is added to, aggregation NONE takes nothing, and there is no scatter. Errors:
// INVALID_ARGUMENT for these and for an operand of another type or shape; naming the variable.
absl::StatusOr<PsControl::VariableChange> ChangeOfReplicas(const proto::VariableLayout& variable,
                                                           const PsControl::VariableChange& change);

}  // namespace cohort
