#include "common/runtime/kernels/update/update_loops.h"

#include <cmath>

#include "common/runtime/kernels/simd.h"

namespace cohort {

// The argument structs are copied to locals (structured bindings by value) first: a store through
// float* could otherwise change them, and the compiler would read them again in every iteration.

COHORT_SIMD void SgdLoop(const UpdateSpan& span, float learning_rate) {
  const auto [gradient, in, out, count] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] - learning_rate * gradient[i];
}

COHORT_SIMD void MomentumLoop(const UpdateSpan& span, float* m, const MomentumRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = momentum * m[i] - learning_rate * gradient[i];
    m[i] = next;
    out[i] = in[i] + next;
  }
}

COHORT_SIMD void NesterovLoop(const UpdateSpan& span, float* m, const MomentumRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float push = learning_rate * gradient[i];
    const float next = momentum * m[i] - push;
    m[i] = next;
    out[i] = in[i] + (momentum * next - push);
  }
}

COHORT_SIMD void AdagradLoop(const UpdateSpan& span, float* accumulator,
                             const AdagradRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [learning_rate, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = accumulator[i] + gradient[i] * gradient[i];
    accumulator[i] = next;
    out[i] = in[i] - learning_rate * gradient[i] / std::sqrt(next + epsilon);
  }
}

namespace {

template <bool kMomentum, bool kCentered>
COHORT_INLINE void RmspropBody(const UpdateSpan& span, const RmspropSlots& slots,
                               const RmspropRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [velocity, m, average] = slots;
  const auto [learning_rate, rho, one_minus_rho, momentum, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float next = rho * velocity[i] + one_minus_rho * g * g;
    velocity[i] = next;
    float denominator = next + epsilon;
    if constexpr (kCentered) {
      const float mean = rho * average[i] + one_minus_rho * g;
      average[i] = mean;
      denominator = next - mean * mean + epsilon;
    }
    float increment = learning_rate * g / std::sqrt(denominator);
    if constexpr (kMomentum) {
      increment = momentum * m[i] + increment;
      m[i] = increment;
    }
    out[i] = in[i] - increment;
  }
}

template <bool kAmsgrad>
COHORT_INLINE void AdamBody(const UpdateSpan& span, const AdamSlots& slots,
                            const AdamRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [m, u, u_max] = slots;
  const auto [alpha, one_minus_beta_1, one_minus_beta_2, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float mean = m[i] + (g - m[i]) * one_minus_beta_1;
    float square = u[i] + (g * g - u[i]) * one_minus_beta_2;
    m[i] = mean;
    u[i] = square;
    if constexpr (kAmsgrad) {
      square = u_max[i] > square ? u_max[i] : square;
      u_max[i] = square;
    }
    out[i] = in[i] - alpha * mean / (std::sqrt(square) + epsilon);
  }
}

}  // namespace

COHORT_SIMD void RmspropLoop(const UpdateSpan& span, const RmspropSlots& slots,
                             const RmspropRates& rates) {
  const bool centered = slots.average_gradient != nullptr;
  if (slots.momentum != nullptr) {
    centered ? RmspropBody<true, true>(span, slots, rates)
             : RmspropBody<true, false>(span, slots, rates);
  } else {
    centered ? RmspropBody<false, true>(span, slots, rates)
             : RmspropBody<false, false>(span, slots, rates);
  }
}

COHORT_SIMD void AdamLoop(const UpdateSpan& span, const AdamSlots& slots, const AdamRates& rates) {
  slots.u_max != nullptr ? AdamBody<true>(span, slots, rates) : AdamBody<false>(span, slots, rates);
}

COHORT_SIMD void AddLoop(const UpdateSpan& span) {
  const auto [gradient, in, out, count] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] + gradient[i];
}

}  // namespace cohort
