#pragma once

// The penalties of regularizers, as nodes of a graph.

#include <string>

#include "absl/types/span.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/layer_target.h"
#include "coordinator/layers/nodes.h"
#include "coordinator/layers/regularizer.h"

namespace cohort {

// Adds the penalty of a tensor, a float32 scalar. `shape` is that of x, which is a matrix if the
// regularizer is OrthogonalRegularizer.
std::string AddPenalty(const RegularizerSpec& spec, const std::string& x, const Shape& shape,
                       const Nodes& nodes);

// A penalty for what a layer gives.
struct ActivityPenalty {
  RegularizerSpec regularizer = {};
  bool per_example = true;  // true: it is divided by the number of examples
};

// Adds the penalty of each output, whose type is set, to those of the target; nothing in
// prediction.
void AddActivityPenalties(const ActivityPenalty& penalty, absl::Span<const LayerValue> outputs,
                          LayerTarget& target);

}  // namespace cohort
