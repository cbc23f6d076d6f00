#pragma once

// Launches of batch normalization, that is, functions that start its loops on a device. An image is
// seen as [outer, channels, inner]. Statistics are double, like the sums from which they are
// computed.

#include <cstdint>

namespace cohort {

struct CudaContext;

// An image seen around its channel axis.
struct ChannelView {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

// Computes the mean and the variance of each channel over all elements of the channel.
struct BatchStatisticsLaunch {
  ChannelView view;
  const float* x = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// Converts statistics that are given for each channel to double.
struct GivenStatisticsLaunch {
  int64_t channels = 0;
  const float* mean = nullptr;
  const float* variance = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// Updates running statistics: out = before * kept + now * (1 - kept).
struct RunningLaunch {
  int64_t channels = 0;
  double kept = 0;
  const float* before = nullptr;
  const double* now = nullptr;
  float* out = nullptr;
};

// Normalizes: y = (x - mean) / sqrt(variance + epsilon) * scale + bias.
struct NormalizeLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes two sums for each channel: `sums` of dy, and `products` of dy * (x - mean) /
// sqrt(variance + epsilon).
struct BatchNormSumsLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* dy = nullptr;
  const float* x = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  double* sums = nullptr;
  double* products = nullptr;
  float* dbias = nullptr;   // receives `sums` as float; null: not wanted
  float* dscale = nullptr;  // receives `products` as float; null: not wanted
};

// Computes dx from the sums of BatchNormSumsLaunch.
struct BatchNormGradLaunch {
  ChannelView view;
  double epsilon = 0;
  bool training = false;  // whether the statistics are those of the batch
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* scale = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  const double* sums = nullptr;
  const double* products = nullptr;
  float* dx = nullptr;  // dx may be the same memory as dy
};

struct BatchNormLaunches {
  int32_t (*batch_statistics)(CudaContext* context, const BatchStatisticsLaunch& launch);
  int32_t (*given_statistics)(CudaContext* context, const GivenStatisticsLaunch& launch);
  int32_t (*running)(CudaContext* context, const RunningLaunch& launch);
  int32_t (*normalize)(CudaContext* context, const NormalizeLaunch& launch);
  int32_t (*sums)(CudaContext* context, const BatchNormSumsLaunch& launch);
  int32_t (*gradient)(CudaContext* context, const BatchNormGradLaunch& launch);
};

// Returns the functions that start batch normalization on a device; batch_normalization.cu defines
// them.
BatchNormLaunches MakeBatchNormLaunches();

}  // namespace cohort
