#pragma once

// 16-bit floats, of rows that a ps keeps and of values that travel, to and from float32: IEEE's
// binary16 and bfloat16, rounded to the nearest, ties to even, as every float cast is.

#include <cstddef>
#include <cstdint>

#include "common/tensor/tensor.h"

namespace cohort {

void FromFloat16(const uint16_t* in, float* out, size_t count);
void ToFloat16(const float* in, uint16_t* out, size_t count);
void FromBfloat16(const uint16_t* in, float* out, size_t count);
void ToBfloat16(const float* in, uint16_t* out, size_t count);

// Returns whether the type is kFloat16 or kBfloat16, the two types that the next functions take.
bool IsHalf(DType dtype);
void WidenFloats(const uint16_t* in, size_t count, DType dtype, float* out);
void NarrowFloats(const float* in, size_t count, DType dtype, uint16_t* out);
// Tensors of the same shape. What is float32, or is to be, is given back as it is.
Tensor WidenTensor(const Tensor& tensor);
Tensor NarrowTensor(const Tensor& floats, DType dtype);

}  // namespace cohort
