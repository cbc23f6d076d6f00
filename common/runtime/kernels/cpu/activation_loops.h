#pragma once

// The processor's loops of activation functions with attributes (common/runtime/kernels/
// unary_functions.h): float32, one pass over memory, like those of span_loops.h. An output may be
// one of the inputs.

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

// The inputs of a gradient's loop.
struct SlopeInputs {
  const float* dy;
  const float* x;
};

void ActivationLoop(ActivationOp op, const UnaryParameters& parameters, const float* x,
                    const FloatRun& run);
// Computes dy times the function's slope at x.
void ActivationSlopeLoop(ActivationOp op, const UnaryParameters& parameters,
                         const SlopeInputs& inputs, const FloatRun& run);

}  // namespace cohort
