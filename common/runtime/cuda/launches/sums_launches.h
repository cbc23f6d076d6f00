#pragma once

// Launches of sums over replicas. The bits are those of join_replicas.h, so multiplying and adding
// are launches of their own: in one launch, nvcc would make them one operation with one rounding.

#include <cstdint>

namespace cohort {

struct CudaContext;

// y = weight * x.
struct WeighLaunch {
  int64_t count = 0;
  float weight = 1;
  const float* x = nullptr;
  float* y = nullptr;  // may be x
};

// sum = sum + x.
struct AddToLaunch {
  int64_t count = 0;
  const float* x = nullptr;
  float* sum = nullptr;
};

struct SumsLaunches {
  int32_t (*weigh)(CudaContext* context, const WeighLaunch& launch);
  int32_t (*add_to)(CudaContext* context, const AddToLaunch& launch);
};

// Returns the launches; defined in sums.cu.
SumsLaunches MakeSumsLaunches();

}  // namespace cohort
