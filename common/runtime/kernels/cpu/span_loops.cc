#include "common/runtime/kernels/cpu/span_loops.h"

#include <cmath>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/fast_math.h"

namespace cohort {

namespace {

// Applies a function to two operands. Each case of strides has a loop of its own, with constant
// strides, so that the loop vectorises.
template <typename Function>
COHORT_INLINE void Map2(const FloatOperand& operand_a, const FloatOperand& operand_b,
                        const FloatRun& run, Function function) {
  const float* a = operand_a.data;
  const float* b = operand_b.data;
  const auto [out, count] = run;
  if (operand_a.stride == 1 && operand_b.stride == 1) {
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) out[i] = function(a[i], b[i]);
  } else if (operand_a.stride == 1) {
    const float repeated = *b;
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) out[i] = function(a[i], repeated);
  } else if (operand_b.stride == 1) {
    const float repeated = *a;
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) out[i] = function(repeated, b[i]);
  } else {
    const float value = function(*a, *b);
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  }
}

template <typename Function>
COHORT_INLINE void Map1(const float* x, const FloatRun& run, Function function) {
  const auto [out, count] = run;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = function(x[i]);
}

// Written so that a NaN stays NaN.
COHORT_INLINE float Rectified(float x) { return x < 0 ? 0.0f : x; }

}  // namespace

COHORT_SIMD void BinaryLoop(BinaryOp op, const FloatOperand& a, const FloatOperand& b,
                            const FloatRun& run) {
  switch (op) {
    case BinaryOp::kAdd:
      return Map2(a, b, run, [](float x, float y) { return x + y; });
    case BinaryOp::kSub:
      return Map2(a, b, run, [](float x, float y) { return x - y; });
    case BinaryOp::kMul:
      return Map2(a, b, run, [](float x, float y) { return x * y; });
    case BinaryOp::kDiv:
      return Map2(a, b, run, [](float x, float y) { return x / y; });
  }
}

COHORT_SIMD void UnaryLoop(UnaryOp op, const float* x, const FloatRun& run) {
  switch (op) {
    case UnaryOp::kNeg:
      return Map1(x, run, [](float v) { return -v; });
    case UnaryOp::kSqrt:
      return Map1(x, run, [](float v) { return std::sqrt(v); });
    case UnaryOp::kExp:
      return Map1(x, run, [](float v) { return FastExp(v); });
    case UnaryOp::kLog:
      return Map1(x, run, [](float v) { return std::log(v); });
    case UnaryOp::kRelu:
      return Map1(x, run, [](float v) { return Rectified(v); });
    case UnaryOp::kSigmoid:
      return Map1(x, run, [](float v) { return FastSigmoid(v); });
    case UnaryOp::kTanh:
      return Map1(x, run, [](float v) { return FastTanh(v); });
  }
}

COHORT_SIMD void GradLoop(GradOp op, const float* dy, const float* y, const FloatRun& run) {
  // Both operands have one element for each output element.
  const FloatOperand gradient = {dy, 1};
  const FloatOperand result = {y, 1};
  switch (op) {
    case GradOp::kRelu:
      return Map2(gradient, result, run, [](float g, float v) { return v > 0 ? g : 0.0f; });
    case GradOp::kSigmoid:
      return Map2(gradient, result, run, [](float g, float v) { return g * v * (1 - v); });
    case GradOp::kTanh:
      return Map2(gradient, result, run, [](float g, float v) { return g * (1 - v * v); });
  }
}

COHORT_SIMD void ScaleLoop(float scale, const FloatOperand& in, const FloatRun& run) {
  Map2(in, {&scale, 0}, run, [](float x, float factor) { return x * factor; });
}

COHORT_SIMD void AccumulateLoop(const float* in, const FloatRun& run) {
  Map2({run.out, 1}, {in, 1}, run, [](float x, float y) { return x + y; });
}

COHORT_SIMD void BiasLoop(const MatrixRows& matrix, const float* bias, Activation activation) {
  const auto [data, rows, columns] = matrix;
  for (int64_t row = 0; row < rows; ++row) {
    float* line = data + row * columns;
    const FloatRun run = {line, columns};
    // Without a bias, only the Relu is left to compute.
    if (bias == nullptr) {
      Map1(line, run, [](float x) { return Rectified(x); });
    } else if (activation == Activation::kRelu) {
      Map2({line, 1}, {bias, 1}, run, [](float x, float y) { return Rectified(x + y); });
    } else {
      Map2({line, 1}, {bias, 1}, run, [](float x, float y) { return x + y; });
    }
  }
}

COHORT_SIMD void MaskedScaleLoop(float scale, const float* x, const bool* mask,
                                 const FloatRun& run) {
  const auto [out, count] = run;
  // The mask is read as numbers: a select on a byte mask does not vectorise, and a product would
  // turn infinity times 0 into NaN.
  const auto* bytes = reinterpret_cast<const uint8_t*>(mask);
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = x[i] * scale;
    const int32_t keep = bytes[i];
    out[i] = keep != 0 ? scaled : 0.0f;
  }
}

}  // namespace cohort
