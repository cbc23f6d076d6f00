#pragma once

// Launches of Softmax and LogSoftmax along one axis.

#include <cstdint>

#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

struct CudaContext;

struct SoftmaxLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* x = nullptr;
  double* sums = nullptr;  // device memory: room for two of each line
  float* y = nullptr;      // may be x
};

// dx from dy and the forward result y.
struct SoftmaxGradLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* dy = nullptr;
  const float* y = nullptr;
  double* sums = nullptr;  // device memory: room for one of each line
  float* dx = nullptr;     // may be dy or y
};

struct SoftmaxLaunches {
  int32_t (*softmax)(CudaContext* context, const SoftmaxLaunch& launch);
  int32_t (*softmax_grad)(CudaContext* context, const SoftmaxGradLaunch& launch);
};

// Returns the launches; defined in softmax.cu.
SoftmaxLaunches MakeSoftmaxLaunches();

}  // namespace cohort
