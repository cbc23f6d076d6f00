#include "common/runtime/update/missed_loops.h"

#include <algorithm>
#include <cmath>

#include "common/runtime/update/rules/update_bodies.h"

namespace cohort {

// Returns 1 - (1 - decay)^count. A decay may be as small as a millionth: computing the power first
// and subtracting it from 1 would lose digits, so expm1 and log1p are used.
double MissedSteps::Lost() const {
  if (decay == 0) return 0;
  return decay < 1 ? -std::expm1(count * std::log1p(-decay)) : 1 - std::pow(1 - decay, count);
}

// Returns the sum over j = 1 ... k of a^(k-j) r^j, with a = 1 - decay and k = count. The sum of
// this geometric series is r (a^k - r^k) / (a - r).
double MissedSteps::Moves(double r) const {
  const double a = 1 - decay;
  // For a = r the quotient would be 0 / 0, but then all k summands of the series are r^k.
  if (std::abs(a - r) <= 1e-9 * std::abs(a)) return count * std::pow(r, count);
  return r * (std::pow(a, count) - std::pow(r, count)) / (a - r);
}

double MissedSteps::Scale(double b) const { return std::pow(b, count); }

COHORT_SIMD void LoseLoop(const UpdateSpan& span) {
  const auto [gradient, in, out, count, lost] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = Decayed(in[i], lost);
}

COHORT_SIMD void MoveLoop(const UpdateSpan& span, const float* m, float rate) {
  const auto [gradient, in, out, count, lost] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = Decayed(in[i], lost) + rate * m[i];
}

COHORT_SIMD void MoveByRootLoop(const UpdateSpan& span, const AdamSlots& slots,
                                const RootMoveRates& rates) {
  const auto [gradient, in, out, count, lost] = span;
  const float* const m = slots.m.in;
  const float* const u = slots.u.in;
  const auto [rate, scale, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Decayed(in[i], lost) - rate * m[i] / (std::sqrt(u[i] * scale) + epsilon);
  }
}

COHORT_SIMD void MoveByNormLoop(const UpdateSpan& span, const AdamaxSlots& slots,
                                const NormMoveRates& rates) {
  const auto [gradient, in, out, count, lost] = span;
  const float* const m = slots.m.in;
  const float* const u = slots.u.in;
  const auto [rate, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Decayed(in[i], lost) - rate * m[i] / (u[i] + epsilon);
  }
}

COHORT_SIMD void ScaleLoop(const SlotSpan& slot, int64_t count, float factor) {
  const auto [in, out] = slot;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = factor * in[i];
}

void MissedFtrlLoop(const UpdateSpan& span, const FtrlSlots& slots, const FtrlRates& rates,
                    double steps) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = slots.accumulator;
  const auto [linear_in, linear_out] = slots.linear;
  for (int64_t i = 0; i < count; ++i) {
    // In the first missed step, FTRL's z grows by two_shrinkage times the value from before all
    // missed steps, after weight decay.
    const float z = linear_in[i] + rates.two_shrinkage * Decayed(in[i], decay);
    const float clipped = std::clamp(z, -rates.l1, rates.l1);
    const float root =
        rates.power == 0.5f ? std::sqrt(sum_in[i]) : std::pow(sum_in[i], rates.power);
    const float divisor = root * rates.inverse_learning_rate + rates.two_l2;
    // The further missed steps shrink only the part of FTRL's z beyond l1, since the value depends
    // only on this part.
    float beyond = z - clipped;
    // The power is computed in double, since it amplifies the rounding error of its base.
    if (rates.two_shrinkage != 0) {
      const double shrunk = double{rates.two_shrinkage} * (1 - double{decay}) / divisor;
      const double left = std::pow(std::max(1 - shrunk, 0.0), steps - 1);
      beyond = static_cast<float>(beyond * left);
    }
    sum_out[i] = sum_in[i];
    linear_out[i] = clipped + beyond;
    out[i] = beyond == 0 ? 0 : -beyond / divisor;
  }
}

}  // namespace cohort
