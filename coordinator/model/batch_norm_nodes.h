#pragma once

// Adds BatchNormalization to a graph. Training normalizes by the mean and variance of the batch,
// and moves the moving statistics towards them by Keras's formula: moving = moving * momentum +
// batch * (1 - momentum), with the population variance. Evaluation and prediction normalize by the
// moving statistics.

#include <cstdint>
#include <string>

#include "coordinator/job/image_layer_spec.h"
#include "coordinator/model/layer_target.h"

namespace cohort {

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
