#pragma once

// Conversions between float32 and the two 16-bit float types, IEEE's binary16 and bfloat16. A ps
// may keep rows in a 16-bit type, and values may travel in one. Conversions to 16 bits round to the
// nearest value, ties to even, like every float cast.

#include <cstddef>
#include <cstdint>

#include "common/tensor/tensor.h"

namespace cohort {

void FromFloat16(const uint16_t* in, float* out, size_t count);
void ToFloat16(const float* in, uint16_t* out, size_t count);
void FromBfloat16(const uint16_t* in, float* out, size_t count);
void ToBfloat16(const float* in, uint16_t* out, size_t count);

// Returns whether `dtype` is kFloat16 or kBfloat16. WidenFloats and NarrowFloats take only these
// two types.
bool IsHalf(DType dtype);
void WidenFloats(const uint16_t* in, size_t count, DType dtype, float* out);
void NarrowFloats(const float* in, size_t count, DType dtype, uint16_t* out);
// Converts a whole tensor to float32, or float32 to `dtype`, and keeps its shape. Returns the
// tensor itself if both types are float32.
Tensor WidenTensor(const Tensor& tensor);
Tensor NarrowTensor(const Tensor& floats, DType dtype);

}  // namespace cohort
