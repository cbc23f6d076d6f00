#pragma once

// An optimizer is an update rule: an operator, the slots that the operator keeps beside each
// variable, the slots' initial values, and hyper-parameters. The coordinator makes rules from
// Keras's configuration, and the ps allocates the slots. One table in update_rule.cc lists the
// parameters of each operator.
//
// Operators and their parameters, with Keras's defaults:
//   adadelta         rho 0.95, epsilon 1e-7
//   adafactor        beta_2_decay -0.8, epsilon_1 1e-30, epsilon_2 1e-3, clip_threshold 1,
//                    relative_step 1 (Keras's formula gives the same with 0)
//   adagrad          initial_accumulator_value 0.1, epsilon 1e-7, epsilon_outside_root 0
//   adam             beta_1 0.9, beta_2 0.999, epsilon 1e-7, amsgrad 0 (AdamW: with weight_decay),
//                    learning_rate_ratio 1 (of the update, not of weight decay)
//   adamax           beta_1 0.9, beta_2 0.999, epsilon 1e-7
//   assign_add       no parameters: value += gradient; also for whole numbers
//   ftrl             learning_rate_power -0.5, initial_accumulator_value 0.1, beta 0,
//                    l1_regularization_strength 0, l2_regularization_strength 0,
//                    l2_shrinkage_regularization_strength 0
//   lamb             beta_1 0.9, beta_2 0.999, epsilon 1e-7
//   lion             beta_1 0.9, beta_2 0.99
//   muon             momentum 0.95, nesterov 1, ns_steps 5, muon_a 3.4445, muon_b -4.775,
//                    muon_c 2.0315, rms_rate 0.2 (0: the update is not scaled), for matrices; of
//                    the other variables, which the coordinator gives the rule adam: adam_beta_1
//                    0.9, adam_beta_2 0.999, epsilon 1e-7, adam_weight_decay 0.004, adam_lr_ratio
//                    1, exclude_embeddings 1
//   nadam            beta_1 0.9, beta_2 0.999, epsilon 1e-7, schedule_decay 1
//   rmsprop          rho 0.9, momentum 0, epsilon 1e-7, centered 0, epsilon_outside_root 0
//   rowwise_adagrad  as adagrad, with one accumulator for each row of a variable
//   sgd              momentum 0, nesterov 0, momentum_of_gradients 0
// All operators except assign_add also have weight_decay 0, use_ema 0, ema_momentum 0.99 and
// ema_overwrite_frequency 0 (never), ema_from_start 0 and gradient_accumulation_steps 0. With
// ema_from_start, step 1 moves the average from the variable's initial value, as in Keras 2;
// without it, step 1 makes the average the value, as in Keras 3. With gradient_accumulation_steps
// n > 1, a step adds its gradient to a slot, and each n-th step updates the variable by the mean of
// n gradients. A variable with a constraint of Keras has the parameters constraint (1 max_norm, 2
// non_neg, 3 unit_norm, 4 min_max_norm; 0: none), constraint_min, constraint_max and
// constraint_rate, and, for the norms, constraint_count and constraint_stride: a norm is that of so
// many elements, which lie so far apart. constraint_whole is 1 if a norm takes more than one row,
// so that the variable stays in one piece. epsilon_outside_root and momentum_of_gradients give the
// arithmetic of TensorFlow's older kernels (runtime/update/rules/updates.h).
//
// A push may carry the gradients of only some rows. Several gradients of one row are first added up
// in the order in which they came, and the row is then updated once. The rule's sparse mode says
// what happens to the rows without a gradient:
//   DENSE_EXACT       The rows change as with a gradient of zeros, bit for bit, as in Keras. If
//                     zeros change nothing (sgd without momentum, adagrad, rowwise_adagrad,
//                     assign_add, each without weight decay and average), the rows are not visited;
//                     otherwise the push costs a pass over the slice. (A -0 stays -0 in a row that
//                     is not visited.)
//   LAZY              The rows do not change: slots and weights do not decay, as in TensorFlow's
//                     older sparse kernels and in LazyAdam. Bias corrections are those of the
//                     push's step.
//   LAZY_COMPENSATED  The rows do not change yet. The next push with a gradient for a row first
//                     makes up, in closed form, for the steps that the row missed (since
//                     kLastStepSlot). Slots and weights decay by all missed steps, and the value
//                     moves as far as the momenta would have moved it. The closed form assumes that
//                     all missed steps have the learning rate and bias correction of the push, and
//                     that the epsilon of Adam and related rules decays like the root beside it.
//                     The average takes up the value as readers saw it during the missed steps.
//                     Except for rounding, the result equals DENSE_EXACT for sgd, adagrad,
//                     adadelta, rmsprop and ftrl at a constant learning rate, and comes close to it
//                     for adam and related rules.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/shape.h"
#include "proto/plan.pb.h"

namespace cohort {

struct SlotSpec {
  // the name of the slot in Keras: "momentum", "velocity", "accumulator", "m", "v", "average"
  std::string name;
  float initial_value = 0;
  bool per_row = false;          // true for a slot with one element for each row of the variable
  bool starts_as_value = false;  // true if the slot's initial value is the variable's initial value
  // The dimension of a variable with two or more that the slot lacks, counted from the end: 1 is
  // the last one. 0: the slot has all dimensions.
  int without_dim = 0;
};

// Returns the shape of a slot of a whole variable.
Shape ShapeOfSlot(const SlotSpec& slot, const Shape& variable);

// The name of the slot that a LAZY_COMPENSATED rule needs if a gradient of zeros changes a row. For
// each row, the slot holds the step of the row's last update, as the bits of a uint32.
inline constexpr char kLastStepSlot[] = "last_step";

// The name of the slot with the moving average of the variable's value (use_ema). A rule with such
// an average has this slot as its last one.
inline constexpr char kAverageSlot[] = "average";

// The name of the slot with the sum of the gradients since the last update
// (gradient_accumulation_steps). It stands before kAverageSlot.
inline constexpr char kAccumulatorSlot[] = "gradient_accumulator";

struct UpdateRuleSpec {
  std::vector<SlotSpec> slots;
  // True if a sparse push also changes the rows for which it has no gradient.
  bool sweeps = false;
  // True if the rule computes with numbers of the whole variable, such as its norm. The variable
  // must then be a single slice, and an update takes all its rows at once.
  bool whole = false;
  // True if the rule runs on the processor only, so the variable must be in its memory.
  bool on_processor = false;
};

enum class ParameterRange {
  kFlag,            // parameters that are 0 or 1
  kFraction,        // parameters in [0, 1)
  kFractionClosed,  // parameters in [0, 1]
  kNotNegative,
  kNotPositive,
  kFinite,
  kFewSteps,  // parameters that are whole numbers from 0 to 100
  kCount,     // parameters that are whole numbers, 0 or larger
};

struct RuleParameter {
  std::string name;  // Keras's name of the parameter
  double otherwise = 0;
  ParameterRange range = ParameterRange::kNotNegative;
  // True if a job's text has the parameter only where it differs from `otherwise`.
  bool rare = false;
  // True if only the coordinator sets the parameter, for single variables; a job file has no key
  // for it.
  bool of_variables = false;
};

// Returns the parameters of an operator: its own parameters, then the parameters that all
// optimizers share. Returns an empty list for an unknown operator.
const std::vector<RuleParameter>& ParametersOf(const std::string& op);

// Checks a rule and returns its slots: the operator's own slots, then kLastStepSlot if the rule
// needs it, and last kAverageSlot if use_ema is set. Errors: INVALID_ARGUMENT that names the
// unknown operator or parameter, the value and its allowed range, or the option that the sparse
// mode does not support.
absl::StatusOr<UpdateRuleSpec> DescribeUpdateRule(const proto::UpdateRule& rule);

// Returns whether the rule changes the value after each update by a constraint.
bool IsConstrained(const proto::UpdateRule& rule);

// Checks that the rule can update a variable of this shape. `rule` must be one that
// DescribeUpdateRule accepts. Errors: INVALID_ARGUMENT for muon and a variable that is no matrix,
// and for a constraint whose norms do not fill the variable, or the rows that they are to lie in.
absl::Status CheckRuleFits(const proto::UpdateRule& rule, const Shape& shape);

// Returns the names of the sparse modes, indexed by their numbers: "dense_exact", "lazy" and
// "lazy_compensated".
absl::Span<const char* const> SparseModeNames();

// Returns the value of a parameter in the rule, or the parameter's default. The operator must have
// the parameter.
double ParameterOf(const proto::UpdateRule& rule, const std::string& name);

}  // namespace cohort
