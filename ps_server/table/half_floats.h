#pragma once

// Rows of 16-bit floats to and from float32: IEEE's binary16 and bfloat16, rounded to the nearest,
// ties to even, as every float cast is.

#include <cstddef>
#include <cstdint>

namespace cohort {

void FromFloat16(const uint16_t* in, float* out, size_t count);
void ToFloat16(const float* in, uint16_t* out, size_t count);
void FromBfloat16(const uint16_t* in, float* out, size_t count);
void ToBfloat16(const float* in, uint16_t* out, size_t count);

}  // namespace cohort
