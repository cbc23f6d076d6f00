#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/sums_launches.h"

namespace cohort {

namespace {

int32_t Weigh(CudaContext* context, const WeighLaunch& launch) {
  const float weight = launch.weight;
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) { y[i] = weight * x[i]; });
}

int32_t AddTo(CudaContext* context, const AddToLaunch& launch) {
  const float* const x = launch.x;
  float* const sum = launch.sum;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) { sum[i] += x[i]; });
}

}  // namespace

SumsLaunches MakeSumsLaunches() { return {Weigh, AddTo}; }

}  // namespace cohort
