#pragma once

// Launches of sums along axes, and of their gradient.

#include <cstdint>

#include "common/runtime/cuda/launches/broadcast_walk.h"

namespace cohort {

struct CudaContext;

// y[i] = (the sum over k of x at kept's place a of i + reduced's place a of k) / divisor, for i in
// [0, count), k in [0, length). Each sum is made of `parts` sums, which may run at the same time.
struct SumLaunch {
  int64_t count = 0;
  int64_t length = 0;
  BroadcastWalk kept;
  BroadcastWalk reduced;
  bool columns = false;  // elements side by side belong to different sums
  int64_t parts = 1;
  double* partial = nullptr;  // device memory: room for count * parts; unused if parts is 1
  double divisor = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

// y[i] = scale * x at walk's place a of i.
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

// Returns the launches; defined in reduce.cu.
ReduceLaunches MakeReduceLaunches();

}  // namespace cohort
