#pragma once

// A layer as nodes of a graph.

#include "coordinator/job/layer_spec.h"
#include "coordinator/model/layer_target.h"

namespace cohort {

// Adds the nodes of a layer that is not an InputLayer.
ModelOutput AddLayerNodes(const LayerSpec& layer, const LayerInputs& inputs,
                          const LayerTarget& target);

}  // namespace cohort
