#pragma once

// Launches (functions that start a loop on a device) of sums along axes, and of the gradient of
// such sums.

#include <cstdint>

#include "common/runtime/cuda/launches/broadcast_walk.h"

namespace cohort {

struct CudaContext;

// Computes y[i] for i in [0, count). y[i] is the sum of x over k in [0, length), divided by
// `divisor`; summand k of y[i] is at kept's place a of i plus reduced's place a of k. Each sum is
// split into `parts` partial sums, which may run at the same time.
struct SumLaunch {
  int64_t count = 0;
  int64_t length = 0;
  BroadcastWalk kept;
  BroadcastWalk reduced;
  bool columns = false;  // whether neighbouring elements belong to different sums
  int64_t parts = 1;
  // Scratch in device memory: count * parts numbers; unused if parts is 1.
  double* partial = nullptr;
  double divisor = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

// Computes y[i] = scale * x at walk's place a of i.
struct RepeatLaunch {
  int64_t count = 0;
  BroadcastWalk walk;
  float scale = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

struct ReduceLaunches {
  int32_t (*sum)(CudaContext* context, const SumLaunch& launch);
  int32_t (*repeat)(CudaContext* context, const RepeatLaunch& launch);
};

// Returns the functions that start reductions on a device; reduce.cu defines them.
ReduceLaunches MakeReduceLaunches();

}  // namespace cohort
