#pragma once

// The state of an optimizer in another program's file: which of its values are which slots of the
// variables' update rules, and how many steps the optimizer has made. Known are
// 1. Keras's names, in TensorFlow checkpoints and legacy .h5 files: "Adam/m/d1/kernel" (Keras 2.11
//    to 2.15), "Adam/d1/kernel/m" (before), "adam/d1_kernel_momentum" (Keras 3);
// 2. Keras's numbers, in .weights.h5 and .keras: the step, in Keras 3 the learning rate, then the
//    slots of the trained variables, in the order of the model;
// 3. TensorFlow 1: "d1/kernel/Adam", "beta2_power";
// 4. Cohort's checkpoints.
// A state is taken as a whole or not at all, because a step counts for all variables: a new slot
// beside an old step would be corrected for steps that it has not seen.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/weight_file.h"
#include "proto/plan.pb.h"

namespace cohort {

// A variable that the optimizer updates, and the file's value that it begins with.
struct TrainedVariable {
  const proto::VariableLayout* layout = nullptr;
  WeightMatch match;
};

// The content of a slot of a variable.
struct FoundSlot {
  size_t variable = 0;  // index of the trained variable
  std::string slot;     // SlotSpec::name
  size_t entry = 0;     // index in WeightFile::entries
  float factor = 1;     // factor by which the file's value is multiplied
};

struct OptimizerState {
  int64_t step = 0;  // steps that the optimizer has made
  // The slots of the variables. Two slots may be missing: the moving average, which then begins as
  // its variable, and the step of a row's last update, which then is `step`.
  std::vector<FoundSlot> slots;
};

// The result of a search for a state.
struct OptimizerStateSearch {
  std::optional<OptimizerState> state;
  std::string why_not;  // reason why there is no state, for people; "" if there is one
};

// Finds the state of the optimizer in a file for all trained variables, in the order in which the
// model has them. `constant_rate` is the job's learning rate, if it is constant: Keras's momentum
// has the rate in it, and the sums of TensorFlow 1 have not. Errors: those of WeightSource::Read.
absl::StatusOr<OptimizerStateSearch> FindOptimizerState(const WeightFile& file,
                                                        absl::Span<const TrainedVariable> variables,
                                                        std::optional<double> constant_rate);

// Reads the content of a slot, of the shape that the variable's rule wants. Errors: those of
// ReadMatch.
absl::StatusOr<Tensor> ReadSlot(const WeightFile& file, const TrainedVariable& variable,
                                const FoundSlot& slot);

}  // namespace cohort
