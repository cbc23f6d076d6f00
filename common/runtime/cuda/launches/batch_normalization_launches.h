#pragma once

// Launches of batch normalization. An image is [outer, channels, inner]; statistics are in double,
// like the sums.

#include <cstdint>

namespace cohort {

struct CudaContext;

struct ChannelView {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

// The mean and the variance of each channel, of its `count` elements.
struct BatchStatisticsLaunch {
  ChannelView view;
  const float* x = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// The same statistics, given for each channel.
struct GivenStatisticsLaunch {
  int64_t channels = 0;
  const float* mean = nullptr;
  const float* variance = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// out = before * kept + now * (1 - kept).
struct RunningLaunch {
  int64_t channels = 0;
  double kept = 0;
  const float* before = nullptr;
  const double* now = nullptr;
  float* out = nullptr;
};

struct NormalizeLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  float* y = nullptr;  // may be x
};

// sums: of dy; products: of dy * (x - mean) / sqrt(variance + epsilon).
struct BatchNormSumsLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* dy = nullptr;
  const float* x = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  double* sums = nullptr;
  double* products = nullptr;
  float* dbias = nullptr;   // the sums; unless null
  float* dscale = nullptr;  // the products; unless null
};

struct BatchNormGradLaunch {
  ChannelView view;
  double epsilon = 0;
  bool training = false;  // the statistics are the batch's
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* scale = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  const double* sums = nullptr;
  const double* products = nullptr;
  float* dx = nullptr;  // may be dy
};

struct BatchNormLaunches {
  int32_t (*batch_statistics)(CudaContext* context, const BatchStatisticsLaunch& launch);
  int32_t (*given_statistics)(CudaContext* context, const GivenStatisticsLaunch& launch);
  int32_t (*running)(CudaContext* context, const RunningLaunch& launch);
  int32_t (*normalize)(CudaContext* context, const NormalizeLaunch& launch);
  int32_t (*sums)(CudaContext* context, const BatchNormSumsLaunch& launch);
  int32_t (*gradient)(CudaContext* context, const BatchNormGradLaunch& launch);
};

// Returns the launches; defined in batch_normalization.cu.
BatchNormLaunches MakeBatchNormLaunches();

}  // namespace cohort
