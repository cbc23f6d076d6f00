#pragma once

// The state of the optimizer in files for Keras, the other direction of optimizer_state.h: the
// values that Keras's optimizer of the same class keeps, in the order of their numbers in
// .weights.h5 and .keras, with their ways in the object graph of a checkpoint. Keras goes on with
// them as the job would have.
//
// An optimizer of Keras 2 and one of Keras 3 have the same slots, steps and rate, with these
// differences: Keras 3 numbers the learning rate behind the steps, and Nadam's product behind the
// slots, where Keras 2 numbers neither; Keras 2 keeps zeros for a
// momentum of SGD that is 0, and the present rate of a schedule. A file in which one of them wants
// a value that the other does not have is for the Keras that wrote the model.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// The state that the optimizer of a job has reached.
struct TrainedState {
  absl::Span<const proto::VariableLayout> layouts;  // those of all variables
  int64_t steps = 0;                                // that the optimizer has made
  // Returns the whole content of a slot of a variable's update rule.
  absl::FunctionRef<absl::StatusOr<Tensor>(const proto::VariableLayout& variable,
                                           const std::string& slot)>
      read_slot;
};

// A value that Keras's optimizer keeps.
struct KerasOptimizerValue {
  enum class Kind {
    kSteps,
    kRate,     // the rate of the next step
    kProduct,  // Nadam's product of the momenta of all steps
    kSlot,
    kZeros,  // a slot that our rule does not have, since it is always 0
  };
  Kind kind = Kind::kSlot;
  // The variable that a slot or zeros belong to, and the slot's name in our rule (SlotSpec::name).
  const proto::VariableLayout* variable = nullptr;
  std::string slot = {};
  float factor = 1;         // Keras's value is the slot's content times this
  bool is_numbered = true;  // false: the value is in the object graph alone
  // The ways from the optimizer in the object graph: "_momentums/0". None: the value is numbered
  // alone.
  std::vector<std::string> tracked = {};
  std::string name = {};       // unique, in a checkpoint: "dense/kernel/.OPTIMIZER_SLOT/adam/m"
  std::string full_name = {};  // as Keras 2 names the variable: "Adam/m/dense/kernel"
};

struct KerasOptimizer {
  std::vector<KerasOptimizerValue> values;  // in the order of Keras's numbers
  // The names of the variables that the optimizer trains, in Keras's order.
  std::vector<std::string> trained;
  std::string why_not;  // not empty: there are no values, and the reason, for people
};

// Lists the values for Keras `keras` (2 or 3). `order` are the names of the model's variables in
// Keras's order; the optimizer counts those of them that are trained.
KerasOptimizer PlanKerasOptimizer(const JobSpec& job, const TrainedState& state,
                                  absl::Span<const std::string> order, int keras);

// Returns a value of the list. Errors: those of TrainedState::read_slot.
absl::StatusOr<Tensor> ReadOptimizerValue(const JobSpec& job, const TrainedState& state,
                                          const KerasOptimizerValue& value);

}  // namespace cohort
