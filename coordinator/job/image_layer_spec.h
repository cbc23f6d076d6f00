#pragma once

// The layers of image models (layer_spec.h). An image is [rows, columns, channels], as Keras's
// data_format "channels_last" has it.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/job/layer_parts.h"

namespace cohort {

// Extents of rows and of columns.
using Extents = std::array<int64_t, 2>;

struct Conv2DSpec {
  std::string name;
  int64_t filters = 1;
  Extents kernel_size = {1, 1};
  Extents strides = {1, 1};
  bool same_padding = false;  // "same"; else "valid"
  Extents dilation_rate = {1, 1};
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  KerasInitializerSpec kernel_initializer{.class_name = "GlorotUniform"};
  KerasInitializerSpec bias_initializer{.class_name = "Zeros"};

  friend bool operator==(const Conv2DSpec&, const Conv2DSpec&) = default;
};

enum class PoolKind { kMax, kAverage };

// MaxPooling2D and AveragePooling2D.
struct Pooling2DSpec {
  std::string name;
  PoolKind kind = PoolKind::kMax;
  Extents pool_size = {2, 2};
  Extents strides = {2, 2};  // pool_size by default
  bool same_padding = false;

  friend bool operator==(const Pooling2DSpec&, const Pooling2DSpec&) = default;
};

// The mean over rows and columns.
struct GlobalAveragePooling2DSpec {
  std::string name;
  bool keepdims = false;

  friend bool operator==(const GlobalAveragePooling2DSpec&,
                         const GlobalAveragePooling2DSpec&) = default;
};

// Over all axes but that of the channels, which is the last.
struct BatchNormalizationSpec {
  std::string name;
  int64_t axis = -1;       // counts the batch as 0
  double momentum = 0.99;  // what the moving statistics keep in a step
  double epsilon = 1e-3;
  bool center = true;  // has beta
  bool scale = true;   // has gamma
  KerasInitializerSpec beta_initializer{.class_name = "Zeros"};
  KerasInitializerSpec gamma_initializer{.class_name = "Ones"};
  KerasInitializerSpec moving_mean_initializer{.class_name = "Zeros"};
  KerasInitializerSpec moving_variance_initializer{.class_name = "Ones"};
  bool synchronized = false;  // statistics of all replicas of the step

  friend bool operator==(const BatchNormalizationSpec&, const BatchNormalizationSpec&) = default;
};

// The elements of an example under another shape, in the same order; one -1 is what is left.
struct ReshapeSpec {
  std::string name;
  std::vector<int64_t> target_shape;

  friend bool operator==(const ReshapeSpec&, const ReshapeSpec&) = default;
};

}  // namespace cohort
