#pragma once

// Bodies of FTRL: the effect of one update on one element (update_body.h).

#include "common/runtime/update/rules/update_body.h"

namespace cohort {

// Computes a power, on a device in double: powf of a device is off by up to 4 units of the last
// place, which is too much for FTRL.
COHORT_BODY float PowerOf(float base, float power) {
#ifdef __CUDA_ARCH__
  return static_cast<float>(pow(static_cast<double>(base), static_cast<double>(power)));
#else
  return powf(base, power);
#endif
}

// The body of one FTRL step. Both powers are those of stored accumulators. So the differences of
// powers over many steps add up to the power by which the last step divides, and z stays consistent
// with the divisor.
template <bool kSquareRoot>
struct FtrlBody {
  FtrlUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float v = ValueAt(span, i);
    const float sum_in = slots.accumulator.in[i];
    const float sum = sum_in + g * g;
    const float root = Power(sum, rates.power);
    const float sigma = (root - Power(sum_in, rates.power)) * rates.inverse_learning_rate;
    const float z = slots.linear.in[i] + (g + rates.two_shrinkage * v - sigma * v);
    float clipped = z > rates.l1 ? rates.l1 : z;
    clipped = clipped < -rates.l1 ? -rates.l1 : clipped;
    const float numerator = clipped - z;
    const float quotient = numerator / (root * rates.inverse_learning_rate + rates.two_l2);
    slots.accumulator.out[i] = sum;
    slots.linear.out[i] = z;
    span.value_out[i] = numerator == 0 ? 0 : quotient;
  }

  static COHORT_BODY float Power(float base, float power) {
    return kSquareRoot ? sqrtf(base) : PowerOf(base, power);
  }
};

template <typename Run>
COHORT_INLINE auto WithBody(const FtrlUpdate& update, const Run& run) {
  return update.rates.power == 0.5f ? run(FtrlBody<true>{update}) : run(FtrlBody<false>{update});
}

}  // namespace cohort
