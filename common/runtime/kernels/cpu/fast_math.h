#pragma once

// Functions of float32 that compilers can vectorise: they have no branches, tables or library
// calls.

#include <cstdint>
#include <cstring>

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace fast_math_internal {

COHORT_INLINE float FromBits(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

COHORT_INLINE int32_t ToBits(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace fast_math_internal

// Returns e^x with an error of at most 2 ulp (span_loops_test checks all exponents); 0 below -104,
// infinity above 88.73, NaN for NaN. The argument is split into x = n ln 2 + r with |r| <= ln 2 /
// 2, where ln 2 has two parts (Cody and Waite). e^r is the Taylor series up to r^7 / 7!, whose
// remainder is below 2^-27. 2^n is split into two factors, so results are right down to the
// subnormal numbers.
COHORT_INLINE float FastExp(float x) {
  using fast_math_internal::FromBits;
  using fast_math_internal::ToBits;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding this number rounds x to an integer in the low bits
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const int32_t n = ToBits(shifted) - ToBits(kRound);
  const float whole = shifted - kRound;
  float r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // If x is NaN, the whole part n is meaningless. The shifts below are still defined, because they
  // shift unsigned numbers.
  const int32_t half = n >> 1;
  const float scale_a = FromBits(static_cast<int32_t>(static_cast<uint32_t>(half + 127) << 23));
  const float scale_b = FromBits(static_cast<int32_t>(static_cast<uint32_t>(n - half + 127) << 23));
  return p * scale_a * scale_b;
}

COHORT_INLINE float FastSigmoid(float x) { return 1.0f / (1.0f + FastExp(-x)); }

// Returns tanh x = 1 - 2 / (e^2x + 1). For |x| below 0.25 the subtraction would lose digits, so the
// odd Taylor series up to x^9 is used.
COHORT_INLINE float FastTanh(float x) {
  const float square = x * x;
  float series = 62.0f / 2835.0f;
  series = series * square - 17.0f / 315.0f;
  series = series * square + 2.0f / 15.0f;
  series = series * square - 1.0f / 3.0f;
  series = x + x * square * series;
  const float quotient = 1.0f - 2.0f / (FastExp(2.0f * x) + 1.0f);
  return square < 0.0625f ? series : quotient;
}

}  // namespace cohort
