#pragma once

// Launches of sums over replicas. The results have the same bits as those of join_replicas.h. So
// multiplication and addition are separate launches: in one launch, nvcc would fuse them into one
// operation with one rounding.

#include <cstdint>

namespace cohort {

struct CudaContext;

// Computes y = weight * x.
struct WeighLaunch {
  int64_t count = 0;
  float weight = 1;
  const float* x = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes sum = sum + x.
struct AddToLaunch {
  int64_t count = 0;
  const float* x = nullptr;
  float* sum = nullptr;
};

struct SumsLaunches {
  int32_t (*weigh)(CudaContext* context, const WeighLaunch& launch);
  int32_t (*add_to)(CudaContext* context, const AddToLaunch& launch);
};

// Returns the functions that start sums on a device; sums.cu defines them.
SumsLaunches MakeSumsLaunches();

}  // namespace cohort
