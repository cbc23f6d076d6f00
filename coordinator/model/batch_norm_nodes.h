#pragma once

// BatchNormalization as nodes of a graph. Training normalizes by the mean and variance of the batch
// and moves the moving ones towards them, by Keras's arithmetic: moving = moving * momentum +
// batch * (1 - momentum), the variance that of the population. Everything else normalizes by the
// moving ones.

#include <cstdint>
#include <string>

#include "coordinator/job/image_layer_spec.h"
#include "coordinator/model/layer_target.h"

namespace cohort {

// [N, channels, ...] of this many axes.
struct ChannelledValue {
  std::string value;
  int64_t channels = 1;
  int64_t rank = 2;
};

// Returns the normalized value. In training the moving statistics are in the target's state
// afterwards.
std::string AddBatchNorm(const BatchNormalizationSpec& layer, const ChannelledValue& x,
                         const LayerTarget& target);

}  // namespace cohort
