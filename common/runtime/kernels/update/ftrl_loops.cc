#include "common/runtime/kernels/update/update_loops.h"

#include <cmath>

#include "common/runtime/kernels/simd.h"
#include "common/runtime/kernels/update/decayed.h"

namespace cohort {

namespace {

template <bool kSquareRoot>
COHORT_INLINE float Power(float base, float power) {
  return kSquareRoot ? std::sqrt(base) : std::pow(base, power);
}

// Both powers are those of stored accumulators, so that over many steps their differences add up to
// the power that divides: z and the divisor stay consistent.
template <bool kSquareRoot>
COHORT_INLINE void FtrlBody(const UpdateSpan& span, const FtrlSlots& slots,
                            const FtrlRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = slots.accumulator;
  const auto [linear_in, linear_out] = slots.linear;
  const auto [inverse_rate, power, l1, two_l2, two_shrinkage] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float v = Decayed(in[i], decay);
    const float sum = sum_in[i] + g * g;
    const float root = Power<kSquareRoot>(sum, power);
    const float sigma = (root - Power<kSquareRoot>(sum_in[i], power)) * inverse_rate;
    const float z = linear_in[i] + (g + two_shrinkage * v - sigma * v);
    float clipped = z > l1 ? l1 : z;
    clipped = clipped < -l1 ? -l1 : clipped;
    const float numerator = clipped - z;
    const float quotient = numerator / (root * inverse_rate + two_l2);
    sum_out[i] = sum;
    linear_out[i] = z;
    out[i] = numerator == 0 ? 0 : quotient;
  }
}

}  // namespace

COHORT_SIMD void FtrlLoop(const UpdateSpan& span, const FtrlSlots& slots, const FtrlRates& rates) {
  rates.power == 0.5f ? FtrlBody<true>(span, slots, rates) : FtrlBody<false>(span, slots, rates);
}

}  // namespace cohort
