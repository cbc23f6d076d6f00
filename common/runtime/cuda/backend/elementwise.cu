// GPU loops in which an output element depends on one element of each input: ONNX's elementwise
// operators, Dropout, weighting and adding for sums over replicas, and matrix products' bias and
// Gemm's operand C.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/runtime/cuda/backend/broadcast_walk.cuh"
#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

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
    case Op::kRelu:  // Relu gives NaN for a NaN
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

// Returns the same random bits as RandomStream::Bits of common/base/rng.h, which cannot run on a
// device.
COHORT_DEVICE inline uint64_t BitsOf(uint64_t key, uint64_t draw) {
  uint64_t value = key + draw * 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

int32_t Dropout(CudaContext* context, const DropoutLaunch& launch) {
  const DropoutLaunch captured = launch;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) {
    const uint64_t element = captured.first + static_cast<uint64_t>(i);
    // One random number of 64 bits serves four elements, 16 bits each (kernels/dropout_support.h).
    const uint64_t bits = BitsOf(captured.key, element / 4);
    const bool keep = ((bits >> (16 * (element % 4))) & 0xffff) >= captured.threshold;
    if (captured.mask != nullptr) captured.mask[i] = keep;
    if (captured.y != nullptr) captured.y[i] = keep ? captured.x[i] * captured.scale : 0;
  });
}

int32_t MaskedScale(CudaContext* context, const MaskedScaleLaunch& launch) {
  const float scale = launch.scale;
  const float* const x = launch.x;
  const bool* const mask = launch.mask;
  float* const y = launch.y;
  return ForEach(context, launch.count,
                 [=] COHORT_DEVICE(int64_t i) { y[i] = mask[i] ? x[i] * scale : 0; });
}

int32_t Bias(CudaContext* context, const BiasLaunch& launch) {
  const int64_t columns = launch.columns;
  const float* const bias = launch.bias;
  const bool relu = launch.relu;
  float* const x = launch.x;
  return ForEach(context, launch.rows * columns, [=] COHORT_DEVICE(int64_t i) {
    const float value = x[i] + bias[i % columns];
    x[i] = relu && value < 0 ? 0 : value;  // Relu gives NaN for a NaN
  });
}

int32_t Spread(CudaContext* context, const SpreadLaunch& launch) {
  const int64_t columns = launch.columns;
  const int64_t row_stride = launch.row_stride;
  const int64_t column_stride = launch.column_stride;
  const float scale = launch.scale;
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.rows * columns, [=] COHORT_DEVICE(int64_t i) {
    y[i] = scale * x[i / columns * row_stride + i % columns * column_stride];
  });
}

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

ElementwiseLaunches MakeElementwiseLaunches() { return {Unary, Binary, UnaryGrad}; }
DropoutLaunches MakeDropoutLaunches() { return {Dropout, MaskedScale}; }
ProductsLaunches MakeProductsLaunches() { return {Bias, Spread}; }
SumsLaunches MakeSumsLaunches() { return {Weigh, AddTo}; }

}  // namespace cohort
