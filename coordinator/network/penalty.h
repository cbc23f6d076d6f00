#pragma once

// The penalties of regularizers, as nodes of a graph.

#include <string>

#include "common/tensor/shape.h"
#include "coordinator/layers/nodes.h"
#include "coordinator/layers/regularizer.h"

namespace cohort {

// Adds the penalty of a tensor, a float32 scalar. `shape` is that of x, which is a matrix if the
// regularizer is OrthogonalRegularizer.
std::string AddPenalty(const RegularizerSpec& spec, const std::string& x, const Shape& shape,
                       const Nodes& nodes);

}  // namespace cohort
