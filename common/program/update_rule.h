#pragma once

// An optimizer is an update rule: an operator, the slots it keeps beside each variable with their
// start values, and hyper-parameters. The coordinator builds rules from Keras's configuration, the
// ps allocates the slots.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace cohort {

struct SlotSpec {
  std::string name;  // Keras's: "momentum", "velocity", "accumulator", "m", "v"
  float initial_value = 0;
};

struct UpdateRuleSpec {
  std::vector<SlotSpec> slots;
};

// Ops: "sgd" (momentum, nesterov), "adagrad" (initial_accumulator_value, epsilon), "rmsprop" (rho,
// momentum, epsilon, centered), "adam" (beta_1, beta_2, epsilon, amsgrad), "assign_add" (no
// parameters: value += gradient; also for int64). Missing parameters take Keras's defaults. Errors:
// INVALID_ARGUMENT naming the unknown op or parameter.
absl::StatusOr<UpdateRuleSpec> DescribeUpdateRule(const proto::UpdateRule& rule);

// The parameter's value, or `otherwise`.
double ParameterOr(const proto::UpdateRule& rule, const std::string& name, double otherwise);

}  // namespace cohort
