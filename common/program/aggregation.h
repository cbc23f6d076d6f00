#pragma once

// VariableAggregation: how what replicas assign or add to a variable, those of a synchronous round
// or those of one worker, becomes one update of it, and where that has to be said. TensorFlow asks
// for it wherever a variable is updated in replica context, but for gradients, which its optimizers
// reduce themselves.

#include <string>

#include "absl/status/status.h"
#include "common/tensor/dtype.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns "SUM", as in tf.VariableAggregation, or the number of an unknown mode.
std::string AggregationName(proto::VariableAggregation aggregation);

// Errors: INVALID_ARGUMENT for a mode that is none, and for a mean of whole numbers.
absl::Status CheckAggregation(proto::VariableAggregation aggregation, DType dtype);

// A closure of a round assigns to a variable, or pushes what its rule adds or trains it with.
enum class ReplicaUpdate { kAssign, kPush };
struct ReplicaContext {
  const std::string& variable;
  const proto::UpdateRule& rule;
  proto::VariableAggregation aggregation;
  ReplicaUpdate update = ReplicaUpdate::kPush;

  // Errors: INVALID_ARGUMENT naming the variable and what to do, where it needs an aggregation.
  absl::Status Check() const;
  // Returns how the updates become one.
  proto::VariableAggregation How() const;
  // Gradients for an optimizer, which takes their mean.
  bool Trains() const;
};

}  // namespace cohort
