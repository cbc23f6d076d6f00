#pragma once

// The names of a model's outputs, by which compile(), labels and reported numbers refer to them.

#include <string>
#include <vector>

#include "coordinator/network/model_spec.h"

namespace cohort {

// Returns the name of each output in the model's order: its key, if the model gives a dict, else
// the layer that makes it. As in Keras 2, the second output of a layer is named "layer_1". Returns
// no names for a model that could not be read.
std::vector<std::string> OutputNames(const ModelSpec& model);

}  // namespace cohort
