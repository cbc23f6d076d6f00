#pragma once

// The processor's loops whose speed memory limits: they compute float32 in one pass over memory,
// and are compiled for several instruction sets (common/runtime/kernel/simd.h). An output may be
// one of the inputs; otherwise pointers do not overlap.

#include <cstdint>

#include "common/base/rng.h"

namespace cohort {

enum class BinaryOp { kAdd, kSub, kMul, kDiv };
enum class UnaryOp { kNeg, kSqrt, kExp, kLog, kRelu, kSigmoid, kTanh };
enum class GradOp { kRelu, kSigmoid, kTanh };

// An input of a loop. The stride is 0 if one element is repeated, else 1.
struct FloatOperand {
  const float* data;
  int64_t stride;
};
struct FloatRun {
  float* out;
  int64_t count;
};

void BinaryLoop(BinaryOp op, const FloatOperand& a, const FloatOperand& b, const FloatRun& run);
void UnaryLoop(UnaryOp op, const float* x, const FloatRun& run);
// Computes the gradient dx of a unary operator from dy and the operator's result y.
void GradLoop(GradOp op, const float* dy, const float* y, const FloatRun& run);

// Computes out = scale * in; one element of `in` is repeated if its stride is 0.
void ScaleLoop(float scale, const FloatOperand& in, const FloatRun& run);
// Computes out += in.
void AccumulateLoop(const float* in, const FloatRun& run);
// Returns the sum of `count` numbers. They are added in 16 partial sums, which are then added up,
// so the order of additions is the same on every instruction set.
float SumLoop(const float* in, int64_t count);
// Returns the sum of the squares of `count` numbers. They are added in 16 partial sums of double,
// so that no square overflows.
double SumOfSquaresLoop(const float* in, int64_t count);
// Computes out = min(max(in, -limit), limit); a NaN stays NaN.
void ClipLoop(float limit, const float* in, const FloatRun& run);

// A matrix for BiasLoop, which adds a bias to each row and then applies an optional Relu.
struct MatrixRows {
  float* data;
  int64_t rows;
  int64_t columns;
};
enum class Activation { kNone, kRelu };
void BiasLoop(const MatrixRows& matrix, const float* bias, Activation activation);

// Lines of a tensor along its last axis, so each line is contiguous. The four loops below compute
// softmax, its logarithm, and the gradients of both; the gradients are computed from dy and the
// forward result y.
struct Lines {
  float* out;
  int64_t count;
  int64_t size;
};
void SoftmaxLines(const float* x, const Lines& lines);
void LogSoftmaxLines(const float* x, const Lines& lines);
void SoftmaxGradLines(const float* dy, const float* y, const Lines& lines);
void LogSoftmaxGradLines(const float* dy, const float* y, const Lines& lines);

// A part of the mask of Dropout (kernels/dropout_support.h): `count` elements from element `first`
// of the global batch on.
struct MaskRun {
  bool* out;
  int64_t count;
  uint64_t first;
  uint32_t threshold;
};
void MaskLoop(const RandomStream& stream, const MaskRun& run);
// Computes out = mask ? scale * x : 0.
void MaskedScaleLoop(float scale, const float* x, const bool* mask, const FloatRun& run);

}  // namespace cohort
