#pragma once

// Launches of Keras's cross-entropies, that is, functions that start their loops on a device. The
// formulas are in common/program/cohort_ops.h. A line holds the predictions for one example.

#include <cstdint>

#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

struct CudaContext;

struct DenseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const float* truth = nullptr;
  const float* prediction = nullptr;
  double* sums = nullptr;        // scratch in device memory: two numbers for each line
  const float* dloss = nullptr;  // gradient of the losses; used by the gradient launches only
  float* out = nullptr;          // the losses, or the gradient of the predictions
};

struct SparseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const int64_t* labels = nullptr;  // labels in device memory, all in range
  const float* prediction = nullptr;
  double* sums = nullptr;        // scratch in device memory: two numbers for each line
  const float* dloss = nullptr;  // gradient of the losses; used by the gradient launches only
  float* out = nullptr;          // the losses, or the gradient of the predictions
};

struct LossesLaunches {
  int32_t (*dense)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*dense_grad)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*sparse)(CudaContext* context, const SparseLossLaunch& launch);
  int32_t (*sparse_grad)(CudaContext* context, const SparseLossLaunch& launch);
};

// Returns the functions that start losses on a device; losses.cu defines them.
LossesLaunches MakeLossesLaunches();

}  // namespace cohort
