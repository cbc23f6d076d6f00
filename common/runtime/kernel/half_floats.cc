#include "common/runtime/kernel/half_floats.h"

#include <bit>

#include "common/base/check.h"
#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kSmallestNormal = 113u << 23;  // 2^-14, the smallest normal number of binary16
constexpr uint32_t kTooLarge = 143u << 23;        // 2^16, beyond binary16's largest number

// Converts a binary16 number to float32. Multiplying by 2^112 moves the exponent from bias 15 to
// bias 127, and also makes normal numbers of those below binary16's smallest normal number.
COHORT_INLINE float FromHalf(uint16_t half) {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t bits = std::bit_cast<uint32_t>(value);
  // Exponent 31 marks infinity and NaN in binary16. In float32, infinity and NaN have all bits of
  // the exponent set.
  bits |= magnitude >= (31u << 23) ? kInfinity : 0;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

COHORT_INLINE uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & ~kSign;
  // Numbers below binary16's smallest normal number are rounded by adding 0.5: the last digit of
  // 0.5 in float32 is 2^-24, binary16's smallest step, so the sum has the digits in their place.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  // Normal numbers lose 13 digits, since binary16 has 10 where float32 has 23. Adding half of the
  // last kept digit's value, less one if that digit is even, rounds to the nearest number, ties to
  // even.
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  const uint32_t normal = (rounded - (112u << 23)) >> 13;
  // In binary16 every NaN becomes the quiet NaN 0x7e00; a number that is too large becomes
  // infinity.
  const uint32_t special = magnitude > kInfinity ? 0x7e00u : 0x7c00u;
  uint32_t half = magnitude < kSmallestNormal ? subnormal : normal;
  half = rounded >= kTooLarge ? special : half;
  return static_cast<uint16_t>(half | (bits & kSign) >> 16);
}

COHORT_INLINE uint16_t ToBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // bfloat16 drops 16 digits of a float32 and rounds to the nearest, ties to even.
  const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  const bool is_nan = (bits & ~kSign) > kInfinity;
  // A NaN is not rounded, since the carry could turn it into infinity; its quiet bit is set
  // instead.
  return static_cast<uint16_t>((is_nan ? bits | 0x400000u : rounded) >> 16);
}

}  // namespace

COHORT_SIMD void FromFloat16(const uint16_t* in, float* out, size_t count) {
  COHORT_IVDEP
  for (size_t i = 0; i < count; ++i) out[i] = FromHalf(in[i]);
}

COHORT_SIMD void ToFloat16(const float* in, uint16_t* out, size_t count) {
  COHORT_IVDEP
  for (size_t i = 0; i < count; ++i) out[i] = ToHalf(in[i]);
}

COHORT_SIMD void FromBfloat16(const uint16_t* in, float* out, size_t count) {
  COHORT_IVDEP
  for (size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(uint32_t{in[i]} << 16);
}

COHORT_SIMD void ToBfloat16(const float* in, uint16_t* out, size_t count) {
  COHORT_IVDEP
  for (size_t i = 0; i < count; ++i) out[i] = ToBrain(in[i]);
}

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

void WidenFloats(const uint16_t* in, size_t count, DType dtype, float* out) {
  COHORT_CHECK(IsHalf(dtype), "a 16-bit type");
  return dtype == DType::kFloat16 ? FromFloat16(in, out, count) : FromBfloat16(in, out, count);
}

void NarrowFloats(const float* in, size_t count, DType dtype, uint16_t* out) {
  COHORT_CHECK(IsHalf(dtype), "a 16-bit type");
  return dtype == DType::kFloat16 ? ToFloat16(in, out, count) : ToBfloat16(in, out, count);
}

Tensor WidenTensor(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) return tensor;
  Tensor wide(DType::kFloat32, tensor.shape());
  WidenFloats(reinterpret_cast<const uint16_t*>(tensor.raw()),
              static_cast<size_t>(tensor.num_elements()), tensor.dtype(),
              wide.mutable_data<float>());
  return wide;
}

Tensor NarrowTensor(const Tensor& floats, DType dtype) {
  if (dtype == DType::kFloat32) return floats;
  Tensor narrow(dtype, floats.shape());
  NarrowFloats(floats.data<float>(), static_cast<size_t>(floats.num_elements()), dtype,
               reinterpret_cast<uint16_t*>(narrow.mutable_raw()));
  return narrow;
}

}  // namespace cohort
