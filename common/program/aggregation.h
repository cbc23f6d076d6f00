#pragma once

// Rules for TensorFlow's VariableAggregation. When several replicas assign or add to one variable,
// in a synchronous round or in one worker, the aggregation says how their values become one update.
// As in TensorFlow, a variable needs an aggregation wherever it is updated in replica context,
// except for gradients, which optimizers reduce themselves.

#include <string>

#include "absl/status/status.h"
#include "common/tensor/dtype.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns the name of an aggregation as in tf.VariableAggregation, such as "SUM", or the number of
// an unknown mode.
std::string AggregationName(proto::VariableAggregation aggregation);

// Checks an aggregation for a variable of an element type. Errors: INVALID_ARGUMENT for an unknown
// mode, and for a mean of whole numbers.
absl::Status CheckAggregation(proto::VariableAggregation aggregation, DType dtype);

// The kind of a replica's update: kAssign assigns to the variable, and kPush sends a gradient or a
// value to add. ReplicaContext describes such an update in a synchronous round.
enum class ReplicaUpdate { kAssign, kPush };
struct ReplicaContext {
  const std::string& variable;
  const proto::UpdateRule& rule;
  proto::VariableAggregation aggregation;
  ReplicaUpdate update = ReplicaUpdate::kPush;

  // Checks that the variable has an aggregation if this update needs one. Errors: INVALID_ARGUMENT
  // that names the variable and says what to do.
  absl::Status Check() const;
  // Returns the aggregation by which the replicas' updates become one update.
  proto::VariableAggregation How() const;
  // Returns true if the update is a gradient for an optimizer, which takes the mean of the
  // gradients.
  bool Trains() const;
};

}  // namespace cohort
