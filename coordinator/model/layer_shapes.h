#pragma once

// What a layer makes of shapes, and the variables that it needs for them. Shapes are those of one
// example, without the batch.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"

namespace cohort {

// Shape of what the layer gives for inputs of these shapes; an InputLayer gives what it is given.
// Errors: INVALID_ARGUMENT naming the layer and the shape that it cannot take.
absl::StatusOr<Shape> LayerOutputShape(const LayerSpec& layer, absl::Span<const Shape> inputs);

// The variables of a layer for inputs that LayerOutputShape takes, in Keras's order. `seed` is for
// initializers without one.
std::vector<VariableSpec> LayerVariables(const LayerSpec& layer, const Shape& input, uint64_t seed);

// The name of an embedding's table; empty for a layer that looks nothing up.
std::string TableOf(const LayerSpec& layer);

}  // namespace cohort
