#pragma once

// Convolutions over two axes, which a library computes: cuDNN in the module, plain loops in
// tests/support/cuda_stand_in.

#include <cstdint>

namespace cohort {

struct CudaContext;

// One axis of a convolution: a WindowAxis with equal padding at both ends. `output` may be less
// than the number of outputs that the other fields give.
struct ConvAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;  // positions of padding before the input and again after the input
};

// The operands of a convolution: x [batch, groups * inputs, rows, columns], w [groups * outputs,
// inputs, ...].
struct ConvLaunch {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t inputs = 0;   // channels of one group of x
  int64_t outputs = 0;  // channels of one group of y
  ConvAxis rows;
  ConvAxis columns;
  const float* first = nullptr;   // x, or dy of a gradient
  const float* second = nullptr;  // w, or x for the gradient of the weights
  const float* bias = nullptr;    // the bias, used by `forward` only; null: no bias
  float* result = nullptr;        // y, dx or dw
};

// The convolutions that a library computes. No operand may be empty.
struct ConvLibrary {
  int32_t (*forward)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*input_grad)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*weight_grad)(CudaContext* context, const ConvLaunch& launch);
};

// Returns the library's convolutions, which dnn_calls.cc and the stand-in define.
ConvLibrary MakeConvLibrary();

}  // namespace cohort
