#pragma once

// The processor's loops of activation functions with attributes (common/runtime/kernels/
// unary_functions.h): they compute float32 in one pass over memory, like the loops of span_loops.h.
// An output may be one of the inputs.

#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/unary_functions.h"

namespace cohort {

enum class ActivationOp {
  kErf,
  kSoftplus,
  kElu,
  kSelu,
  kLeakyRelu,
  kHardSigmoid,
  kGelu,
  kGeluTanh
};

// The inputs of a loop that computes an activation function's gradient.
struct SlopeInputs {
  const float* dy;
  const float* x;
};

void ActivationLoop(ActivationOp op, const UnaryParameters& parameters, const float* x,
                    const FloatRun& run);
// Computes the gradient of the activation function `op`: dy times the function's slope at x.
void ActivationSlopeLoop(ActivationOp op, const UnaryParameters& parameters,
                         const SlopeInputs& inputs, const FloatRun& run);

}  // namespace cohort
