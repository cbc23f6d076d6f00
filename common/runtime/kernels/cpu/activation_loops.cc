#include "common/runtime/kernels/cpu/activation_loops.h"

#include <cmath>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/fast_math.h"

namespace cohort {

namespace {

// Returns log(1 + u) for u in [0, 1] with an error of a few ulp. With s = u / (2 + u) <= 1/3 it is
// 2 (s + s^3 / 3 + s^5 / 5 + ...); the first term left out is below 2 * 3^-15 / 15 = 1e-8.
COHORT_INLINE float Log1pOfUnit(float u) {
  const float s = u / (2.0f + u);
  const float square = s * s;
  float series = 1.0f / 13.0f;
  series = series * square + 1.0f / 11.0f;
  series = series * square + 1.0f / 9.0f;
  series = series * square + 1.0f / 7.0f;
  series = series * square + 1.0f / 5.0f;
  series = series * square + 1.0f / 3.0f;
  return 2.0f * s + 2.0f * s * square * series;
}

// Returns e^x - 1. For |x| below 0.3 the subtraction would lose digits, so the Taylor series is
// used, whose remainder is below 0.3^7 / 8! = 5e-9 of the result.
COHORT_INLINE float FastExpm1(float x) {
  float series = 1.0f / 5040.0f;
  series = series * x + 1.0f / 720.0f;
  series = series * x + 1.0f / 120.0f;
  series = series * x + 1.0f / 24.0f;
  series = series * x + 1.0f / 6.0f;
  series = series * x + 0.5f;
  series = x + x * x * series;
  const float difference = FastExp(x) - 1.0f;
  return std::fabs(x) < 0.3f ? series : difference;
}

// Returns erf(x) for |x| <= 1: the Taylor series up to x^21, whose remainder is below 1e-9. The
// denominators are n! (2n + 1).
COHORT_INLINE float ErfNearZero(float x) {
  const float square = x * x;
  float series = 1.0f / 76204800.0f;
  series = series * square - 1.0f / 6894720.0f;
  series = series * square + 1.0f / 685440.0f;
  series = series * square - 1.0f / 75600.0f;
  series = series * square + 1.0f / 9360.0f;
  series = series * square - 1.0f / 1320.0f;
  series = series * square + 1.0f / 216.0f;
  series = series * square - 1.0f / 42.0f;
  series = series * square + 1.0f / 10.0f;
  series = series * square - 1.0f / 3.0f;
  return 1.12837917f * (x + x * square * series);
}

// Returns 1 - erf(z) for z >= 0 with an error of at most 3e-7. Above 1 it is formula 7.1.26 of
// Abramowitz and Stegun, whose error is below 1.5e-7.
COHORT_INLINE float ErfcOfPositive(float z) {
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  float far = 1.061405429f;
  far = far * t - 1.453152027f;
  far = far * t + 1.421413741f;
  far = far * t - 0.284496736f;
  far = far * t + 0.254829592f;
  far = far * t * FastExp(-z * z);
  return z < 1.0f ? 1.0f - ErfNearZero(z) : far;
}

COHORT_INLINE float FastErf(float x) {
  const float far = 1.0f - ErfcOfPositive(std::fabs(x));
  return std::fabs(x) < 1.0f ? ErfNearZero(x) : x < 0.0f ? -far : far;
}

// Returns the normal distribution's probability of a number below x.
COHORT_INLINE float NormalBelow(float x) {
  const float half = 0.5f * ErfcOfPositive(std::fabs(x) * 0.707106781f);
  return x < 0.0f ? half : 1.0f - half;
}

constexpr float kSqrtTwoByPi = 0.797884561f;
constexpr float kCubic = 0.044715f;

COHORT_INLINE float TanhOfCubic(float x) {
  return FastTanh(kSqrtTwoByPi * (x + kCubic * x * x * x));
}

template <typename Function>
COHORT_INLINE void Map(const float* x, const FloatRun& run, Function function) {
  const auto [out, count] = run;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = function(x[i]);
}

template <typename Function>
COHORT_INLINE void MapSlope(const SlopeInputs& inputs, const FloatRun& run, Function slope) {
  const auto [dy, x] = inputs;
  const auto [out, count] = run;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = dy[i] * slope(x[i]);
}

}  // namespace

COHORT_SIMD void ActivationLoop(ActivationOp op, const UnaryParameters& parameters, const float* x,
                                const FloatRun& run) {
  const float alpha = static_cast<float>(parameters.alpha);
  const float beta = static_cast<float>(parameters.beta);
  const float gamma = static_cast<float>(parameters.gamma);
  switch (op) {
    case ActivationOp::kErf:
      return Map(x, run, [](float v) { return FastErf(v); });
    case ActivationOp::kSoftplus:
      // FastExp is called only with numbers that are not positive, so it does not overflow.
      return Map(x, run,
                 [](float v) { return (v > 0 ? v : 0.0f) + Log1pOfUnit(FastExp(-std::fabs(v))); });
    case ActivationOp::kElu:
      return Map(x, run, [=](float v) { return v > 0 ? v : alpha * FastExpm1(v); });
    case ActivationOp::kSelu:
      return Map(x, run, [=](float v) { return gamma * (v > 0 ? v : alpha * FastExpm1(v)); });
    case ActivationOp::kLeakyRelu:
      return Map(x, run, [=](float v) { return v > 0 ? v : alpha * v; });
    case ActivationOp::kHardSigmoid:
      return Map(x, run, [=](float v) {
        const float line = alpha * v + beta;
        return line < 0 ? 0.0f : line > 1 ? 1.0f : line;
      });
    case ActivationOp::kGelu:
      return Map(x, run, [](float v) { return v * NormalBelow(v); });
    case ActivationOp::kGeluTanh:
      return Map(x, run, [](float v) { return 0.5f * v * (1.0f + TanhOfCubic(v)); });
  }
}

COHORT_SIMD void ActivationSlopeLoop(ActivationOp op, const UnaryParameters& parameters,
                                     const SlopeInputs& inputs, const FloatRun& run) {
  const float alpha = static_cast<float>(parameters.alpha);
  const float gamma = static_cast<float>(parameters.gamma);
  switch (op) {
    case ActivationOp::kErf:
      return MapSlope(inputs, run, [](float v) { return 1.12837917f * FastExp(-v * v); });
    case ActivationOp::kSoftplus:
      return MapSlope(inputs, run, [](float v) { return FastSigmoid(v); });
    case ActivationOp::kElu:
      return MapSlope(inputs, run, [=](float v) { return v > 0 ? 1.0f : alpha * FastExp(v); });
    case ActivationOp::kSelu:
      return MapSlope(inputs, run,
                      [=](float v) { return gamma * (v >= 0 ? 1.0f : alpha * FastExp(v)); });
    case ActivationOp::kLeakyRelu:
      return MapSlope(inputs, run, [=](float v) { return v > 0 ? 1.0f : alpha; });
    case ActivationOp::kHardSigmoid: {
      // The bounds between which the slope is alpha are computed as in HardSigmoidFunction::Slope
      // (unary_functions.h).
      const float zero = static_cast<float>(-parameters.beta / parameters.alpha);
      const float one = static_cast<float>((1 - parameters.beta) / parameters.alpha);
      const float low = zero < one ? zero : one;
      const float high = zero < one ? one : zero;
      return MapSlope(inputs, run, [=](float v) { return v >= low && v <= high ? alpha : 0.0f; });
    }
    case ActivationOp::kGelu:
      return MapSlope(inputs, run, [](float v) {
        return NormalBelow(v) + v * 0.398942280f * FastExp(-0.5f * v * v);
      });
    case ActivationOp::kGeluTanh:
      return MapSlope(inputs, run, [](float v) {
        const float t = TanhOfCubic(v);
        const float inner = kSqrtTwoByPi * (1.0f + 3.0f * kCubic * v * v);
        return 0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * inner;
      });
  }
}

}  // namespace cohort
