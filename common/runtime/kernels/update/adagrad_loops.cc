#include "common/runtime/kernels/update/update_loops.h"

#include <cmath>

#include "common/runtime/kernels/simd.h"

namespace cohort {

namespace {

template <bool kOutside>
COHORT_INLINE float Root(float sum, float epsilon) {
  return kOutside ? std::sqrt(sum) + epsilon : std::sqrt(sum + epsilon);
}

template <bool kOutside>
COHORT_INLINE void AdagradBody(const UpdateSpan& span, const SlotSpan& accumulator,
                               const AdagradRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon, outside] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = sum_in[i] + gradient[i] * gradient[i];
    sum_out[i] = next;
    out[i] = in[i] - learning_rate * gradient[i] / Root<kOutside>(next, epsilon);
  }
}

// In lanes, so that it is vectorised; the compiler may not change the order of float additions.
COHORT_INLINE float SumOfSquares(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  float sum = 0;
  for (; i < count; ++i) sum += values[i] * values[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

COHORT_SIMD void AdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator,
                             const AdagradRates& rates) {
  rates.epsilon_outside_root ? AdagradBody<true>(span, accumulator, rates)
                             : AdagradBody<false>(span, accumulator, rates);
}

COHORT_SIMD void RowwiseAdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator,
                                    int64_t width, const AdagradRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon, outside] = rates;
  const float share = 1.0f / static_cast<float>(width);
  for (int64_t row = 0, begin = 0; begin < count; ++row, begin += width) {
    const float next = sum_in[row] + SumOfSquares(gradient + begin, width) * share;
    sum_out[row] = next;
    const float root = outside ? Root<true>(next, epsilon) : Root<false>(next, epsilon);
    const float rate = learning_rate / root;
    COHORT_IVDEP
    for (int64_t i = begin; i < begin + width; ++i) out[i] = in[i] - rate * gradient[i];
  }
}

COHORT_SIMD void AdadeltaLoop(const UpdateSpan& span, const AdadeltaSlots& slots,
                              const AdadeltaRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [sum_in, sum_out] = slots.gradient;
  const auto [delta_in, delta_out] = slots.delta;
  const auto [learning_rate, rho, one_minus_rho, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float sum = rho * sum_in[i] + one_minus_rho * g * g;
    const float delta = g * std::sqrt((delta_in[i] + epsilon) / (sum + epsilon));
    sum_out[i] = sum;
    delta_out[i] = rho * delta_in[i] + one_minus_rho * delta * delta;
    out[i] = in[i] - learning_rate * delta;
  }
}

}  // namespace cohort
