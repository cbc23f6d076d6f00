#include "common/runtime/kernels/update/update_loops.h"

#include <cmath>

#include "common/runtime/kernels/simd.h"
#include "common/runtime/kernels/update/decayed.h"

namespace cohort {

namespace {

template <bool kMomentum, bool kCentered, bool kOutside>
COHORT_INLINE void RmspropBody(const UpdateSpan& span, const RmspropSlots& slots,
                               const RmspropRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [velocity_in, velocity_out] = slots.velocity;
  const auto [m_in, m_out] = slots.momentum;
  const auto [average_in, average_out] = slots.average_gradient;
  const auto [learning_rate, rho, one_minus_rho, momentum, epsilon, outside] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float next = rho * velocity_in[i] + one_minus_rho * g * g;
    velocity_out[i] = next;
    float variance = next;
    if constexpr (kCentered) {
      const float mean = rho * average_in[i] + one_minus_rho * g;
      average_out[i] = mean;
      variance = next - mean * mean;
    }
    const float root = kOutside ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon);
    float increment = learning_rate * g / root;
    if constexpr (kMomentum) {
      increment = momentum * m_in[i] + increment;
      m_out[i] = increment;
    }
    out[i] = Decayed(in[i], decay) - increment;
  }
}

template <bool kMomentum, bool kCentered>
COHORT_INLINE void RmspropByEpsilon(const UpdateSpan& span, const RmspropSlots& slots,
                                    const RmspropRates& rates) {
  rates.epsilon_outside_root ? RmspropBody<kMomentum, kCentered, true>(span, slots, rates)
                             : RmspropBody<kMomentum, kCentered, false>(span, slots, rates);
}

}  // namespace

COHORT_SIMD void RmspropLoop(const UpdateSpan& span, const RmspropSlots& slots,
                             const RmspropRates& rates) {
  const bool centered = slots.average_gradient.out != nullptr;
  if (slots.momentum.out != nullptr) {
    centered ? RmspropByEpsilon<true, true>(span, slots, rates)
             : RmspropByEpsilon<true, false>(span, slots, rates);
  } else {
    centered ? RmspropByEpsilon<false, true>(span, slots, rates)
             : RmspropByEpsilon<false, false>(span, slots, rates);
  }
}

}  // namespace cohort
