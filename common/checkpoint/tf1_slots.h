#pragma once

// The names that TensorFlow 1 gives to the slots of its optimizers, and what their values mean
// here. A slot of the variable "d1/kernel" is the tensor "d1/kernel/Adam"; counters of an optimizer
// are tensors of their own, "beta1_power". A second optimizer in one graph goes on with the numbers
// of the first ("/Adam_2", "beta1_power_1"): such slots are not told apart, and not taken.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// The way from the value of a slot of TensorFlow 1 to ours.
enum class Tf1SlotValue {
  kSame,
  // Momentum: ours is the step that is added to the variable, TensorFlow's the sum that is
  // multiplied by the rate and subtracted. So ours = -rate * theirs, and for a constant rate only.
  kTimesNegativeRate,
};

// A slot of one of our update rules (common/program/update_rule.h) as TensorFlow 1 names it.
struct Tf1Slot {
  std::string slot;    // ours: "momentum", "m"
  std::string suffix;  // behind the variable's name: "/Momentum"
  Tf1SlotValue value = Tf1SlotValue::kSame;
};

// Says which variant of an optimizer a rule is, as far as the names depend on it.
struct Tf1Rule {
  std::string op;         // the update rule's operator: "sgd", "rmsprop"
  bool centered = false;  // rmsprop alone
};

// Returns the slots of a rule in TensorFlow 1, or none for a rule that it does not have (adamax,
// nadam, rowwise_adagrad). Slots that TensorFlow has and the rule does not want, as the momentum of
// an RMSProp without one, are listed too.
std::vector<Tf1Slot> Tf1SlotsOf(const Tf1Rule& rule);

// The slot that the name of a tensor belongs to.
struct Tf1SlotName {
  std::string variable;
  Tf1Slot slot;
};

// Returns which slot of the rule a tensor is, or nullopt if it is a variable or another's slot.
std::optional<Tf1SlotName> ParseTf1SlotName(const Tf1Rule& rule, absl::string_view tensor);

// Returns how many steps an Adam has made whose power of beta_2 is `beta2_power` = beta_2^(t+1), as
// TensorFlow keeps it, or nullopt if the power says nothing: it is no number in (0, beta_2], or so
// small that rounding decides. beta_1's power underflows after some 830 steps, so it is not asked.
std::optional<int64_t> Tf1StepsOfPower(double beta2_power, double beta_2);

}  // namespace cohort
