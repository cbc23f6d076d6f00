#pragma once

// Launches (functions that start a loop on a device) of Softmax and LogSoftmax along one axis.

#include <cstdint>

#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

struct CudaContext;

struct SoftmaxLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* x = nullptr;
  double* sums = nullptr;  // scratch in device memory: two numbers for each line
  float* y = nullptr;      // y may be the same memory as x
};

// Computes the gradient dx of Softmax or LogSoftmax from dy and the forward result y.
struct SoftmaxGradLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* dy = nullptr;
  const float* y = nullptr;
  double* sums = nullptr;  // scratch in device memory: one number for each line
  float* dx = nullptr;     // dx may be the same memory as dy or y
};

struct SoftmaxLaunches {
  int32_t (*softmax)(CudaContext* context, const SoftmaxLaunch& launch);
  int32_t (*softmax_grad)(CudaContext* context, const SoftmaxGradLaunch& launch);
};

// Returns the functions that start softmax on a device; softmax.cu defines them.
SoftmaxLaunches MakeSoftmaxLaunches();

}  // namespace cohort
