#include "common/runtime/kernels/update/update_loops.h"

#include <cmath>

#include "common/runtime/kernels/simd.h"
#include "common/runtime/kernels/update/decayed.h"

namespace cohort {

namespace {

template <bool kAmsgrad>
COHORT_INLINE void AdamBody(const UpdateSpan& span, const AdamSlots& slots,
                            const AdamRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
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
    out[i] = Decayed(in[i], decay) - alpha * mean / (std::sqrt(square) + epsilon);
  }
}

}  // namespace

COHORT_SIMD void AdamLoop(const UpdateSpan& span, const AdamSlots& slots, const AdamRates& rates) {
  slots.u_max.out != nullptr ? AdamBody<true>(span, slots, rates)
                             : AdamBody<false>(span, slots, rates);
}

COHORT_SIMD void AdamaxLoop(const UpdateSpan& span, const AdamaxSlots& slots,
                            const AdamaxRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = slots.m;
  const auto [u_in, u_out] = slots.u;
  const auto [rate, one_minus_beta_1, beta_2, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float mean = m_in[i] + (g - m_in[i]) * one_minus_beta_1;
    const float kept = beta_2 * u_in[i];
    const float size = std::abs(g);
    const float norm = kept > size ? kept : size;
    m_out[i] = mean;
    u_out[i] = norm;
    out[i] = Decayed(in[i], decay) - rate * mean / (norm + epsilon);
  }
}

COHORT_SIMD void NadamLoop(const UpdateSpan& span, const NadamSlots& slots,
                           const NadamRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = slots.m;
  const auto [u_in, u_out] = slots.u;
  const auto [momentum_rate, gradient_rate, scale, one_minus_beta_1, one_minus_beta_2, epsilon] =
      rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float mean = m_in[i] + (g - m_in[i]) * one_minus_beta_1;
    const float square = u_in[i] + (g * g - u_in[i]) * one_minus_beta_2;
    m_out[i] = mean;
    u_out[i] = square;
    out[i] = Decayed(in[i], decay) - (momentum_rate * mean + gradient_rate * g) /
                         (std::sqrt(square * scale) + epsilon);
  }
}

}  // namespace cohort
