#pragma once

// Shapes and variables of layers. A shape is that of one example, without the batch.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"

namespace cohort {

// Returns the layer's output shape for inputs of these shapes; for an InputLayer, the input shape
// itself. Errors: INVALID_ARGUMENT naming the layer and the shape that it cannot take.
absl::StatusOr<Shape> LayerOutputShape(const LayerSpec& layer, absl::Span<const Shape> inputs);

// Returns the variables of a layer in Keras's order, for an input that LayerOutputShape accepts.
// Initializers without a seed use `seed`.
std::vector<VariableSpec> LayerVariables(const LayerSpec& layer, const Shape& input, uint64_t seed);

// Returns the name of an embedding's table, or "" for a layer that looks nothing up.
std::string TableOf(const LayerSpec& layer);

}  // namespace cohort
