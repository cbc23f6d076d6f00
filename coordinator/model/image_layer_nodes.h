#pragma once

// Adds the layers of image models to a graph (layer_target.h), without their activation.

#include "coordinator/job/image_layer_spec.h"
#include "coordinator/model/layer_target.h"

namespace cohort {

ModelOutput AddNodes(const Conv2DSpec& layer, const LayerInputs& inputs, const LayerTarget& target);
ModelOutput AddNodes(const Pooling2DSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target);
ModelOutput AddNodes(const GlobalAveragePooling2DSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target);
ModelOutput AddNodes(const BatchNormalizationSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target);
ModelOutput AddNodes(const ReshapeSpec& layer, const LayerInputs& inputs,
                     const LayerTarget& target);

}  // namespace cohort
