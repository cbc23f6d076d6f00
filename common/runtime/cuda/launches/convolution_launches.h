#pragma once

// Convolutions over two axes, which a library computes: cuDNN in the module, plain loops in
// tests/support/cuda_stand_in.

#include <cstdint>

namespace cohort {

struct CudaContext;

// As WindowAxis, with as much padding before as after, and no more outputs or fewer than that
// gives.
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
  const float* bias = nullptr;    // of forward alone; none if null
  float* result = nullptr;        // y, dx or dw
};

// Nothing is empty.
struct ConvLibrary {
  int32_t (*forward)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*input_grad)(CudaContext* context, const ConvLaunch& launch);
  int32_t (*weight_grad)(CudaContext* context, const ConvLaunch& launch);
};

// In dnn_calls.cc, and in the stand-in.
ConvLibrary MakeConvLibrary();

}  // namespace cohort
