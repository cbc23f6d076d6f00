#pragma once

// An optimizer is an update rule: an operator, the slots it keeps beside each variable with their
// start values, and hyper-parameters. The coordinator builds rules from Keras's configuration, the
// ps allocates the slots. What each operator knows is one table (update_rule.cc).
//
// Operators and their parameters, with Keras's defaults:
//   adadelta         rho 0.95, epsilon 1e-7
//   adagrad          initial_accumulator_value 0.1, epsilon 1e-7, epsilon_outside_root 0
//   adam             beta_1 0.9, beta_2 0.999, epsilon 1e-7, amsgrad 0 (AdamW: with weight_decay)
//   adamax           beta_1 0.9, beta_2 0.999, epsilon 1e-7
//   assign_add       none: value += gradient; also for whole numbers
//   ftrl             learning_rate_power -0.5, initial_accumulator_value 0.1, beta 0,
//                    l1_regularization_strength 0, l2_regularization_strength 0,
//                    l2_shrinkage_regularization_strength 0
//   nadam            beta_1 0.9, beta_2 0.999, epsilon 1e-7
//   rmsprop          rho 0.9, momentum 0, epsilon 1e-7, centered 0, epsilon_outside_root 0
//   rowwise_adagrad  as adagrad, with one accumulator for each row of a variable
//   sgd              momentum 0, nesterov 0, momentum_of_gradients 0
// All but assign_add also take weight_decay 0, use_ema 0, ema_momentum 0.99 and
// ema_overwrite_frequency 0 (never). epsilon_outside_root and momentum_of_gradients give the
// arithmetic of TensorFlow's older kernels (runtime/update/rules/updates.h).
//
// A push may bring the gradients of some rows only; those of one row are added up first, in the
// order in which they came, and the row is updated once. What happens to the other rows is the
// rule's sparse mode:
//   DENSE_EXACT       what a gradient of zeros does, bit for bit, as Keras has it. Where that is
//                     nothing (sgd without momentum, adagrad, rowwise_adagrad, assign_add, each
//                     without weight decay and average) the other rows are not looked at; else the
//                     push costs a pass over the slice. (Nothing: a -0 stays -0.)
//   LAZY              nothing at all: slots and weights do not decay. TensorFlow's older sparse
//                     kernels, and LazyAdam. Bias corrections are those of the push's step.
//   LAZY_COMPENSATED  nothing yet: the next push that has the row first makes up for the steps that
//                     the row missed (since kLastStepSlot), in closed form. Slots and weights decay
//                     by all steps, and the value moves by what momenta would have moved it; for
//                     that all missed steps have the learning rate and bias correction of the push,
//                     and Adam's and its kin's epsilon decays like the root beside it. The average
//                     takes up the value as it stood there to be read. So it is what DENSE_EXACT
//                     gives, but for rounding: for sgd, adagrad, adadelta, rmsprop and ftrl at a
//                     constant rate; for adam and its kin nearly.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace cohort {

struct SlotSpec {
  std::string name;  // Keras's: "momentum", "velocity", "accumulator", "m", "v", "average"
  float initial_value = 0;
  bool per_row = false;          // one element for each row of the variable, else its shape
  bool starts_as_value = false;  // it starts as the variable's own start value
};

// The slot of LAZY_COMPENSATED rules whose rows change without a gradient: per row, the step of its
// last update, as the bits of a uint32.
inline constexpr char kLastStepSlot[] = "last_step";

// The name of the slot with the moving average, which is the last one where there is one.
inline constexpr char kAverageSlot[] = "average";

struct UpdateRuleSpec {
  std::vector<SlotSpec> slots;
  // A push of some rows changes the others too.
  bool sweeps = false;
};

enum class ParameterRange {
  kFlag,            // 0 or 1
  kFraction,        // [0, 1)
  kFractionClosed,  // [0, 1]
  kNotNegative,
  kNotPositive,
  kCount,  // a whole number >= 0
};

struct RuleParameter {
  std::string name;  // Keras's
  double otherwise = 0;
  ParameterRange range = ParameterRange::kNotNegative;
};

// Returns the parameters of an operator, its own before those that all optimizers have; none for an
// unknown operator.
const std::vector<RuleParameter>& ParametersOf(const std::string& op);

// Returns the slots of the rule: those of the operator, kLastStepSlot if there is one, and
// kAverageSlot last with use_ema. Errors: INVALID_ARGUMENT naming the unknown op or parameter, or
// the value and what it may be, or what the sparse mode cannot do.
absl::StatusOr<UpdateRuleSpec> DescribeUpdateRule(const proto::UpdateRule& rule);

// Returns "dense_exact", "lazy", "lazy_compensated", by number.
absl::Span<const char* const> SparseModeNames();

// Returns the parameter's value, or its default. The operator has such a parameter.
double ParameterOf(const proto::UpdateRule& rule, const std::string& name);

}  // namespace cohort
