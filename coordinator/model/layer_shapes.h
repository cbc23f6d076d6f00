#pragma once

// Shapes and variables of layers. Shapes are those of one example, without the batch.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"

namespace cohort {

// Returns the layer's output shape for inputs of these shapes; an InputLayer returns its input.
// Errors: INVALID_ARGUMENT naming the layer and the shape that it cannot take.
absl::StatusOr<Shape> LayerOutputShape(const LayerSpec& layer, absl::Span<const Shape> inputs);

// Returns the variables of a layer for inputs that LayerOutputShape takes, in Keras's order. `seed`
// is for initializers without one.
std::vector<VariableSpec> LayerVariables(const LayerSpec& layer, const Shape& input, uint64_t seed);

// Returns the name of an embedding's table; empty for a layer that looks nothing up.
std::string TableOf(const LayerSpec& layer);

}  // namespace cohort
