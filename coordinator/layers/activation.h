#pragma once

// Keras's activation functions by name. activation.cc has the table of functions.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/layers/keras_file.h"
#include "coordinator/layers/layer_target.h"

namespace cohort {

// An activation function, such as "relu". Versions of Keras mean different functions by some names.
struct Activation {
  std::string name = "linear";
  KerasVersion keras = {};
  // Arguments other than the function's defaults, by Keras 3's names: {"axis", 1}.
  std::map<std::string, double> arguments = {};
};

// Returns the names of all functions that need no arguments.
const std::vector<std::string>& ActivationNames();

// Returns whether the function computes each element from that element alone. Such a function can
// be computed in any order of dimensions.
bool IsElementwise(const std::string& activation);

// Returns the type of the function's result. Errors: INVALID_ARGUMENT naming the layer, if the
// function needs another shape.
absl::StatusOr<TensorType> ActivatedType(const Activation& activation, const std::string& layer,
                                         const Shape& shape);

// Adds the function. Softmax and sigmoid keep their input as the logits of their output. An output
// of the type of `x` is in the order of `x` or in Keras's.
LayerValue Activate(const Activation& activation, const LayerValue& x, LayerTarget& target);

}  // namespace cohort
