#pragma once

// Adds layers to a graph as nodes.

#include "coordinator/job/layer_spec.h"
#include "coordinator/model/layer_target.h"

namespace cohort {

// Adds the nodes of a layer that is not an InputLayer, and returns the layer's output.
ModelOutput AddLayerNodes(const LayerSpec& layer, const LayerInputs& inputs,
                          const LayerTarget& target);

}  // namespace cohort
