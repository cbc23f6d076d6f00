#pragma once

// The shapes of a model's tensors and variables, computed without data. A dimension that the model
// leaves open gets a number, and then another one: what differs between the two is open as well.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/layers/variable_spec.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// The shape of one tensor for an example, without the batch; -1: the size follows from the data.
using OpenShape = std::vector<int64_t>;

struct ModelShapes {
  bool known = false;  // false: the model does not say what an example is, and nothing else is set
  // For each call of ModelSpec::calls, the shapes of its outputs.
  std::vector<std::vector<OpenShape>> outputs;
  std::vector<VariableSpec> variables;  // in the order of their layers
};

// Computes the shapes. Errors: INVALID_ARGUMENT naming the layer and the shape that the layer
// cannot take, or the variable whose shape depends on an open dimension.
absl::StatusOr<ModelShapes> PlanShapes(const ModelSpec& model);

// Returns the shape as Keras shows it: "(None, 28, 28, 1)".
std::string ShapeText(const OpenShape& shape);

}  // namespace cohort
