#pragma once

// Of Keras's cross-entropies; the formulas are in common/program/cohort_ops.h. A line has the
// predictions of one example.

#include <cstdint>

#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

struct CudaContext;

struct DenseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const float* truth = nullptr;
  const float* prediction = nullptr;
  double* sums = nullptr;        // of the device: room for two of each line
  const float* dloss = nullptr;  // of the gradient alone
  float* out = nullptr;          // the losses, or the predictions' gradient
};

struct SparseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const int64_t* labels = nullptr;  // of the device: in range
  const float* prediction = nullptr;
  double* sums = nullptr;        // of the device: room for two of each line
  const float* dloss = nullptr;  // of the gradient alone
  float* out = nullptr;          // the losses, or the predictions' gradient
};

struct LossesLaunches {
  int32_t (*dense)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*dense_grad)(CudaContext* context, const DenseLossLaunch& launch);
  int32_t (*sparse)(CudaContext* context, const SparseLossLaunch& launch);
  int32_t (*sparse_grad)(CudaContext* context, const SparseLossLaunch& launch);
};

// In losses.cu.
LossesLaunches MakeLossesLaunches();

}  // namespace cohort
