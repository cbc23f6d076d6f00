#pragma once

// The layers of image models (layer_spec.h). The shape of an image is [rows, columns, channels], as
// in Keras's data_format "channels_last".

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/job/layer_parts.h"

namespace cohort {

// The extent along rows, then the extent along columns.
using Extents = std::array<int64_t, 2>;

struct Conv2DSpec {
  std::string name;
  int64_t filters = 1;
  Extents kernel_size = {1, 1};
  Extents strides = {1, 1};
  bool same_padding = false;  // true: Keras's "same"; false: "valid"
  Extents dilation_rate = {1, 1};
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  KerasInitializerSpec kernel_initializer{.class_name = "GlorotUniform"};
  KerasInitializerSpec bias_initializer{.class_name = "Zeros"};

  friend bool operator==(const Conv2DSpec&, const Conv2DSpec&) = default;
};

enum class PoolKind { kMax, kAverage };

// Keras's MaxPooling2D or AveragePooling2D.
struct Pooling2DSpec {
  std::string name;
  PoolKind kind = PoolKind::kMax;
  Extents pool_size = {2, 2};
  Extents strides = {2, 2};  // strides of the pooling window; by default equal to pool_size
  bool same_padding = false;

  friend bool operator==(const Pooling2DSpec&, const Pooling2DSpec&) = default;
};

// Keras's layer that takes the mean over rows and columns.
struct GlobalAveragePooling2DSpec {
  std::string name;
  bool keepdims = false;

  friend bool operator==(const GlobalAveragePooling2DSpec&,
                         const GlobalAveragePooling2DSpec&) = default;
};

// Normalization over all axes except the axis of the channels, which is the last one.
struct BatchNormalizationSpec {
  std::string name;
  int64_t axis = -1;       // the axis of the channels, where axis 0 is the batch
  double momentum = 0.99;  // the fraction of the moving statistics that a step keeps
  double epsilon = 1e-3;
  bool center = true;  // true: the layer has beta
  bool scale = true;   // true: the layer has gamma
  KerasInitializerSpec beta_initializer{.class_name = "Zeros"};
  KerasInitializerSpec gamma_initializer{.class_name = "Ones"};
  KerasInitializerSpec moving_mean_initializer{.class_name = "Zeros"};
  KerasInitializerSpec moving_variance_initializer{.class_name = "Ones"};
  bool synchronized = false;  // true: the statistics are those of all replicas of a step

  friend bool operator==(const BatchNormalizationSpec&, const BatchNormalizationSpec&) = default;
};

// Gives the elements of an example another shape; their order stays. One dimension may be -1, and
// is then computed from the others.
struct ReshapeSpec {
  std::string name;
  std::vector<int64_t> target_shape;

  friend bool operator==(const ReshapeSpec&, const ReshapeSpec&) = default;
};

}  // namespace cohort
