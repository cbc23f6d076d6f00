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

COHORT_SIMD void MomentumLoop(const UpdateSpan& span, const SlotSpan& m,
                              const MomentumRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = momentum * m_in[i] - learning_rate * gradient[i];
    m_out[i] = next;
    out[i] = in[i] + next;
  }
}

COHORT_SIMD void NesterovLoop(const UpdateSpan& span, const SlotSpan& m,
                              const MomentumRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float push = learning_rate * gradient[i];
    const float next = momentum * m_in[i] - push;
    m_out[i] = next;
    out[i] = in[i] + (momentum * next - push);
  }
}

COHORT_SIMD void AdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator,
                             const AdagradRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = sum_in[i] + gradient[i] * gradient[i];
    sum_out[i] = next;
    out[i] = in[i] - learning_rate * gradient[i] / std::sqrt(next + epsilon);
  }
}

namespace {

template <bool kMomentum, bool kCentered>
COHORT_INLINE void RmspropBody(const UpdateSpan& span, const RmspropSlots& slots,
                               const RmspropRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [velocity_in, velocity_out] = slots.velocity;
  const auto [m_in, m_out] = slots.momentum;
  const auto [average_in, average_out] = slots.average_gradient;
  const auto [learning_rate, rho, one_minus_rho, momentum, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float next = rho * velocity_in[i] + one_minus_rho * g * g;
    velocity_out[i] = next;
    float denominator = next + epsilon;
    if constexpr (kCentered) {
      const float mean = rho * average_in[i] + one_minus_rho * g;
      average_out[i] = mean;
      denominator = next - mean * mean + epsilon;
    }
    float increment = learning_rate * g / std::sqrt(denominator);
    if constexpr (kMomentum) {
      increment = momentum * m_in[i] + increment;
      m_out[i] = increment;
    }
    out[i] = in[i] - increment;
  }
}

template <bool kAmsgrad>
COHORT_INLINE void AdamBody(const UpdateSpan& span, const AdamSlots& slots,
                            const AdamRates& rates) {
  const auto [gradient, in, out, count] = span;
  const auto [m_in, m_out] = slots.m;
  const auto [u_in, u_out] = slots.u;
  const auto [max_in, max_out] = slots.u_max;
  const auto [alpha, one_minus_beta_1, one_minus_beta_2, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float mean = m_in[i] + (g - m_in[i]) * one_minus_beta_1;
    float square = u_in[i] + (g * g - u_in[i]) * one_minus_beta_2;
    m_out[i] = mean;
    u_out[i] = square;
    if constexpr (kAmsgrad) {
      square = max_in[i] > square ? max_in[i] : square;
      max_out[i] = square;
    }
    out[i] = in[i] - alpha * mean / (std::sqrt(square) + epsilon);
  }
}

}  // namespace

COHORT_SIMD void RmspropLoop(const UpdateSpan& span, const RmspropSlots& slots,
                             const RmspropRates& rates) {
  const bool centered = slots.average_gradient.out != nullptr;
  if (slots.momentum.out != nullptr) {
    centered ? RmspropBody<true, true>(span, slots, rates)
             : RmspropBody<true, false>(span, slots, rates);
  } else {
    centered ? RmspropBody<false, true>(span, slots, rates)
             : RmspropBody<false, false>(span, slots, rates);
  }
}

COHORT_SIMD void AdamLoop(const UpdateSpan& span, const AdamSlots& slots, const AdamRates& rates) {
  slots.u_max.out != nullptr ? AdamBody<true>(span, slots, rates)
                             : AdamBody<false>(span, slots, rates);
}

COHORT_SIMD void AddLoop(const UpdateSpan& span) {
  const auto [gradient, in, out, count] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] + gradient[i];
}

}  // namespace cohort
