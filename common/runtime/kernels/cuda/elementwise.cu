#include <cmath>

#include "common/runtime/kernels/cuda/elementwise_launches.h"
#include "common/runtime/kernels/cuda/for_each.cuh"

namespace cohort {

namespace {

template <typename Function>
int32_t Map(CudaContext* context, const UnaryLaunch& launch, Function function) {
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) { y[i] = function(x[i]); });
}

int32_t Unary(CudaContext* context, const UnaryLaunch& launch) {
  switch (launch.op) {
    case UnaryOp::kNeg:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return -x; });
    case UnaryOp::kSqrt:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return sqrtf(x); });
    case UnaryOp::kExp:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return expf(x); });
    case UnaryOp::kLog:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return logf(x); });
    case UnaryOp::kRelu:  // a NaN stays one
      return Map(context, launch, [] COHORT_DEVICE(float x) { return x < 0 ? 0 : x; });
    case UnaryOp::kSigmoid:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return 1 / (1 + expf(-x)); });
    case UnaryOp::kTanh:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return tanhf(x); });
  }
  return kCudaDone;
}

}  // namespace

ElementwiseLaunches MakeElementwiseLaunches() { return {Unary}; }

}  // namespace cohort
