#pragma once

// Adds the layers of image models to a graph (layer_target.h), without their activation.
//
// In training, BatchNormalization normalizes by the mean and variance of the batch, and moves the
// moving statistics towards them by Keras's formula: moving = moving * momentum + batch * (1 -
// momentum), with the population variance. Evaluation and prediction normalize by the moving
// statistics.

#include <cstdint>
#include <string>

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

// A value of the graph with shape [N, channels, ...] and `rank` axes.
struct ChannelledValue {
  std::string value;
  int64_t channels = 1;
  int64_t rank = 2;
};

// Returns the name of the normalized value. In training, the new moving statistics are then in the
// target's state.
std::string AddBatchNorm(const BatchNormalizationSpec& layer, const ChannelledValue& x,
                         const LayerTarget& target);

}  // namespace cohort
