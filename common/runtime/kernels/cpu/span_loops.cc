#include "common/runtime/kernels/cpu/span_loops.h"

#include <cmath>
#include <limits>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/fast_math.h"
#include "common/runtime/kernels/dropout_support.h"

namespace cohort {

namespace {

// Applies a function to each pair of elements of two operands. Each combination of strides has a
// loop of its own, with constant strides, so that the loop vectorises.
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

// Returns Relu of x. The comparison is written so that a NaN stays NaN.
COHORT_INLINE float Rectified(float x) { return x < 0 ? 0.0f : x; }

// The number of partial results (lanes) of a reduction along a line. The compiler may not reorder
// sums of floats by itself. With a fixed number of partial results, the loop vectorises and the
// order is the same on every instruction set.
constexpr int64_t kLanes = 16;

// Returns the reduction of term(i) for i in [0, count) by `combine`.
template <typename Term, typename Combine>
COHORT_INLINE float ReduceLanes(int64_t count, float start, Term term, Combine combine) {
  float lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = start;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = combine(lanes[lane], term(i + lane));
    }
  }
  float result = start;
  for (; i < count; ++i) result = combine(result, term(i));
  for (int64_t lane = 0; lane < kLanes; ++lane) result = combine(result, lanes[lane]);
  return result;
}

COHORT_INLINE float Add(float a, float b) { return a + b; }
COHORT_INLINE float Larger(float a, float b) { return a > b ? a : b; }

COHORT_INLINE float Largest(const float* x, int64_t size) {
  return ReduceLanes(
      size, -std::numeric_limits<float>::infinity(), [x](int64_t i) { return x[i]; }, Larger);
}

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
  // dy and y have as many elements as the output, so nothing is repeated.
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
    if (activation == Activation::kRelu) {
      Map2({line, 1}, {bias, 1}, run, [](float x, float y) { return Rectified(x + y); });
    } else {
      Map2({line, 1}, {bias, 1}, run, [](float x, float y) { return x + y; });
    }
  }
}

COHORT_SIMD void MaskedScaleLoop(float scale, const float* x, const bool* mask,
                                 const FloatRun& run) {
  const auto [out, count] = run;
  // The mask is read as integers: a choice by a mask of bytes does not vectorise, and multiplying
  // by the mask would turn infinity times 0 into NaN.
  const auto* bytes = reinterpret_cast<const uint8_t*>(mask);
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = x[i] * scale;
    const int32_t keep = bytes[i];
    out[i] = keep != 0 ? scaled : 0.0f;
  }
}

COHORT_SIMD float SumLoop(const float* in, int64_t count) {
  return ReduceLanes(
      count, 0.0f, [in](int64_t i) { return in[i]; }, Add);
}

COHORT_SIMD double SumOfSquaresLoop(const float* in, int64_t count) {
  // The partial sums are double, in which the square of no float overflows.
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double x = in[i + lane];
      lanes[lane] += x * x;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(in[i]) * in[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

COHORT_SIMD void ClipLoop(float limit, const float* in, const FloatRun& run) {
  const auto [out, count] = run;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float x = in[i];
    const float low = x < -limit ? -limit : x;
    out[i] = low > limit ? limit : low;
  }
}

COHORT_SIMD void SoftmaxLines(const float* x, const Lines& lines) {
  const int64_t size = lines.size;
  for (int64_t line = 0; line < lines.count; ++line) {
    const float* in = x + line * size;
    float* out = lines.out + line * size;
    // Subtracting the largest element keeps exp from overflowing.
    const float largest = Largest(in, size);
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) out[i] = FastExp(in[i] - largest);
    const float scale = 1.0f / ReduceLanes(
                                   size, 0.0f, [out](int64_t i) { return out[i]; }, Add);
    for (int64_t i = 0; i < size; ++i) out[i] *= scale;
  }
}

COHORT_SIMD void LogSoftmaxLines(const float* x, const Lines& lines) {
  const int64_t size = lines.size;
  for (int64_t line = 0; line < lines.count; ++line) {
    const float* in = x + line * size;
    float* out = lines.out + line * size;
    const float largest = Largest(in, size);
    const float sum = ReduceLanes(
        size, 0.0f, [in, largest](int64_t i) { return FastExp(in[i] - largest); }, Add);
    // LogSoftmax needs only the sum of the exponentials, so the exponentials are not stored.
    const float logarithm = std::log(sum);
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) out[i] = in[i] - largest - logarithm;
  }
}

COHORT_SIMD void SoftmaxGradLines(const float* dy, const float* y, const Lines& lines) {
  const int64_t size = lines.size;
  for (int64_t line = 0; line < lines.count; ++line) {
    const float* grad = dy + line * size;
    const float* result = y + line * size;
    float* out = lines.out + line * size;
    const float sum = ReduceLanes(
        size, 0.0f, [grad, result](int64_t i) { return grad[i] * result[i]; }, Add);
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) out[i] = result[i] * (grad[i] - sum);
  }
}

COHORT_SIMD void LogSoftmaxGradLines(const float* dy, const float* y, const Lines& lines) {
  const int64_t size = lines.size;
  for (int64_t line = 0; line < lines.count; ++line) {
    const float* grad = dy + line * size;
    const float* result = y + line * size;
    float* out = lines.out + line * size;
    const float sum = ReduceLanes(
        size, 0.0f, [grad](int64_t i) { return grad[i]; }, Add);
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) out[i] = grad[i] - FastExp(result[i]) * sum;
  }
}

COHORT_SIMD void MaskLoop(const RandomStream& stream, const MaskRun& run) {
  const auto [out, count, first, threshold] = run;
  int64_t i = 0;
  // One random number serves four elements. Elements before the first complete group of four are
  // computed one by one.
  for (; i < count && (first + static_cast<uint64_t>(i)) % 4 != 0; ++i) {
    out[i] = DropoutKeeps(stream, first + static_cast<uint64_t>(i), threshold);
  }
  const uint64_t draw = (first + static_cast<uint64_t>(i)) / 4;
  const int64_t draws = (count - i) / 4;
  bool* const whole = out + i;
  for (int64_t each = 0; each < draws; ++each) {
    const uint64_t bits = stream.Bits(draw + static_cast<uint64_t>(each));
    for (int lane = 0; lane < 4; ++lane) {
      whole[each * 4 + lane] = ((bits >> (16 * lane)) & 0xffff) >= threshold;
    }
  }
  // Computes the elements after the last complete group of four one by one.
  for (i += draws * 4; i < count; ++i) {
    out[i] = DropoutKeeps(stream, first + static_cast<uint64_t>(i), threshold);
  }
}

}  // namespace cohort
