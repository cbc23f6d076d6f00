#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/runtime/cuda/backend/broadcast_walk.cuh"
#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/elementwise_launches.h"

namespace cohort {

namespace {

template <typename Function>
int32_t Map(CudaContext* context, const UnaryLaunch& launch, Function function) {
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) { y[i] = function(x[i]); });
}

// Returns -x by inverting the sign bit, which also keeps the bits of a NaN. A GPU computes -x as a
// sum, which loses the bits of a NaN.
COHORT_DEVICE float Negative(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  bits ^= uint32_t{1} << 31;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

int32_t Unary(CudaContext* context, const UnaryLaunch& launch) {
  using Op = UnaryLaunch::Op;
  switch (launch.op) {
    case Op::kNeg:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return Negative(x); });
    case Op::kSqrt:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return sqrtf(x); });
    case Op::kExp:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return expf(x); });
    case Op::kLog:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return logf(x); });
    case Op::kRelu:  // a NaN stays NaN
      return Map(context, launch, [] COHORT_DEVICE(float x) { return x < 0 ? 0 : x; });
    case Op::kSigmoid:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return 1 / (1 + expf(-x)); });
    case Op::kTanh:
      return Map(context, launch, [] COHORT_DEVICE(float x) { return tanhf(x); });
  }
  return kCudaDone;
}

template <typename Function>
int32_t Map2(CudaContext* context, const BinaryLaunch& launch, Function function) {
  const BroadcastWalk walk = launch.walk;
  const float* const a = launch.a;
  const float* const b = launch.b;
  float* const out = launch.out;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) {
    const WalkPlace place = PlaceOf(walk, i);
    out[i] = function(a[place.a], b[place.b]);
  });
}

int32_t Binary(CudaContext* context, const BinaryLaunch& launch) {
  using Op = BinaryLaunch::Op;
  switch (launch.op) {
    case Op::kAdd:
      return Map2(context, launch, [] COHORT_DEVICE(float a, float b) { return a + b; });
    case Op::kSub:
      return Map2(context, launch, [] COHORT_DEVICE(float a, float b) { return a - b; });
    case Op::kMul:
      return Map2(context, launch, [] COHORT_DEVICE(float a, float b) { return a * b; });
    case Op::kDiv:
      return Map2(context, launch, [] COHORT_DEVICE(float a, float b) { return a / b; });
  }
  return kCudaDone;
}

template <typename Function>
int32_t MapGrad(CudaContext* context, const UnaryGradLaunch& launch, Function function) {
  const float* const dy = launch.dy;
  const float* const y = launch.y;
  float* const dx = launch.dx;
  return ForEach(context, launch.count,
                 [=] COHORT_DEVICE(int64_t i) { dx[i] = function(dy[i], y[i]); });
}

int32_t UnaryGrad(CudaContext* context, const UnaryGradLaunch& launch) {
  using Op = UnaryGradLaunch::Op;
  switch (launch.op) {
    case Op::kRelu:
      return MapGrad(context, launch,
                     [] COHORT_DEVICE(float dy, float y) { return y > 0 ? dy : 0.0f; });
    case Op::kSigmoid:
      return MapGrad(context, launch,
                     [] COHORT_DEVICE(float dy, float y) { return dy * y * (1 - y); });
    case Op::kTanh:
      return MapGrad(context, launch,
                     [] COHORT_DEVICE(float dy, float y) { return dy * (1 - y * y); });
  }
  return kCudaDone;
}

}  // namespace

ElementwiseLaunches MakeElementwiseLaunches() { return {Unary, Binary, UnaryGrad}; }

}  // namespace cohort
