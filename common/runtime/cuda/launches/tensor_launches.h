#pragma once

// The arguments of launches (launches.h) on tensors of any shape. Pointers point to the device's
// memory, and to floats unless another type is named; sizes are in elements. This header is plain
// C++, because nvcc compiles it, too.

#include <cstdint>

namespace cohort {

inline constexpr int kWalkAxesMax = 8;

// The merged axes of kernels/broadcast.h in a form for a device. From the index of an element of a
// result, a device computes the index of the element that it reads in each of the two inputs, a and
// b.
struct BroadcastWalk {
  int32_t axes = 0;  // number of axes in use; 0: the result has one element
  int64_t size[kWalkAxesMax] = {};
  int64_t stride_a[kWalkAxesMax] = {};
  int64_t stride_b[kWalkAxesMax] = {};
};

// The lines along one axis of a tensor of [outer, size, inner]. There is one line for each pair
// (outer, inner).
struct DeviceLines {
  int64_t count = 0;  // number of lines, outer * inner
  int64_t size = 0;
  int64_t inner = 1;
};

// Computes y[i] = op(x[i]) for each i.
struct UnaryLaunch {
  enum class Op : int32_t { kNeg, kSqrt, kExp, kLog, kRelu, kSigmoid, kTanh };
  Op op = Op::kNeg;
  int64_t count = 0;
  const float* x = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes out[i] as `op` of one element of a and one element of b. For each i, `walk` gives the
// indices of these two elements.
struct BinaryLaunch {
  enum class Op : int32_t { kAdd, kSub, kMul, kDiv };
  Op op = Op::kAdd;
  int64_t count = 0;
  BroadcastWalk walk;
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;  // the output may be the same memory as an input that is not repeated
};

// Computes the gradient dx of an operator from dy and the operator's result y.
struct UnaryGradLaunch {
  enum class Op : int32_t { kRelu, kSigmoid, kTanh };
  Op op = Op::kRelu;
  int64_t count = 0;
  const float* dy = nullptr;
  const float* y = nullptr;
  float* dx = nullptr;  // dx may be the same memory as dy or y
};

// Draws the mask of Dropout, and computes y = kept ? scale * x : 0. kernels/dropout_support.h says
// which elements are kept.
struct DropoutLaunch {
  int64_t count = 0;
  uint64_t key = 0;    // the key of the RandomStream from which the mask is drawn
  uint64_t first = 0;  // number of x's first element in the global batch
  uint32_t threshold = 0;
  float scale = 1;
  const float* x = nullptr;
  float* y = nullptr;    // y may be the same memory as x; null: y is not wanted
  bool* mask = nullptr;  // receives the mask; null: the mask is not wanted
};

// Applies a mask of Dropout: y = mask ? scale * x : 0.
struct MaskedScaleLaunch {
  int64_t count = 0;
  float scale = 1;
  const float* x = nullptr;
  const bool* mask = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes y = weight * x, a summand of a sum over replicas. Sums on a device must have the same
// bits as the processor's sums in join_replicas.h. So multiplication and addition are separate
// launches: in one launch, nvcc would fuse them into one operation with one rounding.
struct WeighLaunch {
  int64_t count = 0;
  float weight = 1;
  const float* x = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Adds one replica's x to a sum over replicas: sum = sum + x.
struct AddToLaunch {
  int64_t count = 0;
  const float* x = nullptr;
  float* sum = nullptr;
};

// Computes c = alpha op(a) op(b) + beta c for each of `batch` products. Matrix i of an operand
// begins at i * stride elements; with a stride of 0 all products use the same matrix. Matrices are
// row-major without gaps. op(a) is m x k, so a itself is k x m if transpose_a is set; b likewise.
// All sizes are at least 1. With beta 0, the old content of c is not read. The arithmetic is
// float32, not TF32.
struct GemmLaunch {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  float alpha = 1;
  float beta = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  int64_t batch = 1;
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_c = 0;
};

// Computes x[row][column] += bias[column], then Relu if `relu` is set.
struct BiasLaunch {
  int64_t rows = 0;
  int64_t columns = 0;
  const float* bias = nullptr;
  bool relu = false;
  float* x = nullptr;
};

// Writes Gemm's operand C, scaled and broadcast, into the output: y[row][column] = scale * x[row *
// row_stride + column * column_stride].
struct SpreadLaunch {
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1;
  const float* x = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  float* y = nullptr;
};

// Computes `count` sums of x, divided by `divisor`. Sum y[i] has `length` summands; the index in x
// of summand k is the index that `kept` gives for i plus the index that `reduced` gives for k (in
// input a of each walk). If neighbouring elements of x belong to different sums, each sum is split
// into `parts` partial sums, which may run at the same time.
struct SumLaunch {
  int64_t count = 0;
  int64_t length = 0;
  BroadcastWalk kept;
  BroadcastWalk reduced;
  bool columns = false;  // whether neighbouring elements of x belong to different sums
  int64_t parts = 1;
  // Scratch in device memory: count * parts numbers; unused if parts is 1.
  double* partial = nullptr;
  double divisor = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

// Repeats elements of x: y[i] = scale * x[j], where `walk` gives j for each i as the index in its
// input a.
struct RepeatLaunch {
  int64_t count = 0;
  BroadcastWalk walk;
  float scale = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

// Computes Softmax or LogSoftmax along one axis.
struct SoftmaxLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* x = nullptr;
  double* sums = nullptr;  // scratch in device memory: two numbers for each line
  float* y = nullptr;      // y may be the same memory as x
};

// Computes the gradient dx of Softmax or LogSoftmax from dy and the forward result y.
struct SoftmaxGradLaunch {
  bool logarithm = false;
  DeviceLines lines;
  const float* dy = nullptr;
  const float* y = nullptr;
  double* sums = nullptr;  // scratch in device memory: one number for each line
  float* dx = nullptr;     // dx may be the same memory as dy or y
};

// Computes Keras's categorical cross-entropies or their gradient. The formulas are in
// common/program/cohort_ops.h. A line holds the predictions for one example.
struct DenseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const float* truth = nullptr;
  const float* prediction = nullptr;
  double* sums = nullptr;        // scratch in device memory: two numbers for each line
  const float* dloss = nullptr;  // gradient of the losses; used by the gradient launches only
  float* out = nullptr;          // the losses, or the gradient of the predictions
};

// Computes Keras's sparse categorical cross-entropies or their gradient: like DenseLossLaunch, but
// the truth is one label for each line instead of probabilities.
struct SparseLossLaunch {
  bool from_logits = false;
  DeviceLines lines;
  const int64_t* labels = nullptr;  // labels in device memory, all in range
  const float* prediction = nullptr;
  double* sums = nullptr;        // scratch in device memory: two numbers for each line
  const float* dloss = nullptr;  // gradient of the losses; used by the gradient launches only
  float* out = nullptr;          // the losses, or the gradient of the predictions
};

}  // namespace cohort
