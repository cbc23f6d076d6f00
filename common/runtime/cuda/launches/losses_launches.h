#pragma once

// Launches of Keras's cross-entropies; the formulas are in common/program/cohort_ops.h. A line has
// the predictions of one example.

#include <cstdint>

#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

struct CudaContext;

struct DenseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const float* truth = nullptr;
  const float* prediction = nullptr;
  double* sums = nullptr;        // device memory: room for two of each line
  const float* dloss = nullptr;  // used by the gradient alone
  float* out = nullptr;          // the losses, or the predictions' gradient
};

struct SparseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const int64_t* labels = nullptr;  // device memory; all in range
  const float* prediction = nullptr;
  double* sums = nullptr;        // device memory: room for two of each line
  const float* dloss = nullptr;  // used by the gradient alone
  float* out = nullptr;          // the losses, or the predictions' gradient
};

struct LossesLaunches {
  int32_t (*dense)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*dense_grad)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*sparse)(CudaContext* context, const SparseLossLaunch& launch);
  int32_t (*sparse_grad)(CudaContext* context, const SparseLossLaunch& launch);
};

// Returns the launches; defined in losses.cu.
LossesLaunches MakeLossesLaunches();

}  // namespace cohort
