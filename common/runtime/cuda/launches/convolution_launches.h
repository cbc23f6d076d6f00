#pragma once

// Convolutions over two axes, which a library computes: cuDNN in the module, plain loops in
// tests/support/cuda_stand_in.

#include <cstdint>

namespace cohort {

struct CudaContext;

// A WindowAxis with equal padding before and after, and any number of outputs up to the one that
// this gives.
struct ConvAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;  // before and after
};

// x [batch, groups * inputs, rows, columns], w [groups * outputs, inputs, ...].
struct ConvLaunch {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t inputs = 0;   // channels of one group
  int64_t outputs = 0;  // channels of one group
  ConvAxis rows;
  ConvAxis columns;
  const float* first = nullptr;   // x, or dy of a gradient
  const float* second = nullptr;  // w, or x of the weights' gradient
  const float* bias = nullptr;    // used by `forward` alone; null: none
  float* result = nullptr;        // y, dx or dw
};

// The convolutions of a library. No operand is empty.
struct ConvLibrary {
  int32_t (*forward)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*input_grad)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*weight_grad)(CudaContext* context, const ConvLaunch& launch);
};

// Returns the library's calls; defined in dnn_calls.cc, and in the stand-in.
ConvLibrary MakeConvLibrary();

}  // namespace cohort
