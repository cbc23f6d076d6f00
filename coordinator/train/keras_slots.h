#pragma once

// The names that Keras gives to the slots of its optimizers.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace cohort {

// A slot of one of our update rules, with its names in Keras.
struct KerasSlot {
  std::string slot;    // SlotSpec::name
  std::string keras2;  // in "Adam/m/d1/kernel" of Keras 2.11 to 2.15
  std::string keras3;  // in "adam/d1_kernel_momentum" of Keras 3
  std::string legacy;  // in "Adam/d1/kernel/m" of Keras before 2.11; "": no such slot
  // The attribute of the optimizer of Keras 2 that has the list of these slots, "_momentums".
  std::string list2;
  std::string list3;  // the same of Keras 3
};

// Returns the slots that a rule has in Keras, in the order of Keras's numbers. The slots of one
// inner list alternate, variable by variable; then those of the next inner list follow. Returns
// nothing for a rule whose slots in Keras are not known (adafactor, lamb, muon, rowwise_adagrad).
std::optional<std::vector<std::vector<KerasSlot>>> KerasSlotsOf(const proto::UpdateRule& rule);

// Returns the slot of SGD's momentum, which Keras 2 has without a momentum too.
KerasSlot KerasMomentumOfSgd();

// Returns the operator of an optimizer's update rule. `name` is the class, or the name that Keras
// derives from the class: "adam" for "Adam", "AdamW", "adam_w" and "adam_1". Returns "" for other
// names.
std::string OpOfKerasOptimizer(absl::string_view name);

}  // namespace cohort
