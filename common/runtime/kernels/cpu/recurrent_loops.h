#pragma once

// Loops of recurrent layers over the gates of one example at one step, in float32, compiled for
// several instruction sets (common/runtime/kernel/simd.h). Pointers do not overlap unless a comment
// says so.

#include <cstdint>

#include "common/runtime/kernels/recurrent_shape.h"

namespace cohort {

// Returns whether the loops below know the function.
bool HasGateLoop(GateFunction function);

// A run of `count` numbers.
struct GateRun {
  float* data;
  int64_t count;
};
// Replaces each z by the gate's value at z + bias; a null bias counts as zeros.
void ApplyGate(const Gate& gate, const float* bias, const GateRun& run);
// Multiplies each number by the gate's slope where the gate has the value y.
void MultiplyBySlope(const Gate& gate, const float* y, const GateRun& run);

// The parts of a saved row of an LSTM and its state c of the step before.
struct LstmRow {
  float* gates;  // i, o, f, c
  const float* before;
  float* c;
  float* h;
};
// Computes c = f * before + i * g and h = o * hidden(c) from the activated gates.
void LstmStep(const Gate& hidden, const LstmRow& row, int64_t size);

// The gradients of an LSTM's states, and of its gates before their functions' slopes.
struct LstmGradients {
  float* dh;       // the gradient of h; becomes zeros
  float* dc;       // the gradient of c; becomes that of the c before
  float* dz;       // i, o, f, c
  float* scratch;  // 2 * size numbers
};
void LstmStepGradient(const Gate& hidden, const LstmRow& row, const LstmGradients& gradients,
                      int64_t size);

// The parts of a saved row of a GRU and its state of the step before.
struct GruRow {
  float* gates;  // z, r, h
  const float* before;
  float* h;
};
// Computes h = (1 - z) * g + z * before from the activated gates.
void GruStep(const GruRow& row, int64_t size);
// Writes the gradients of z and g, without slopes, to dz [3 * size], and replaces dh by the part of
// the gradient of the state before that does not come through gates.
void GruStepGradient(const GruRow& row, float* dh, float* dz, int64_t size);

// Computes out = a * b, out += b or out += a * b. `out` may be an input.
void MultiplyRow(const float* a, const float* b, const GateRun& out);
void AddRow(const float* b, const GateRun& out);
void AddProductRow(const float* a, const float* b, const GateRun& out);

}  // namespace cohort
