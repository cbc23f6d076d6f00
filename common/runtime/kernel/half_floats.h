#pragma once

// Conversions between float32 and the two 16-bit float types, IEEE's binary16 and bfloat16. A ps
// may keep rows in a 16-bit type, and values may be sent in one. Conversions to 16 bits round to
// the nearest value, ties to even, like every float cast.

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
// WidenTensor converts a tensor of a 16-bit float type to float32, and NarrowTensor converts a
// float32 tensor to `dtype`. Both keep the shape. Both return the tensor itself if it already has
// the result's type.
Tensor WidenTensor(const Tensor& tensor);
Tensor NarrowTensor(const Tensor& floats, DType dtype);

}  // namespace cohort
