// GPU loops over the lines along one axis of a tensor: softmax and Keras's cross-entropies.

#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// Returns the index in the tensor of element number k of line number `line`.
COHORT_DEVICE inline int64_t PlaceInLine(const DeviceLines& lines, int64_t line, int64_t k) {
  if (lines.inner == 1) return line * lines.size + k;
  const int64_t outer = line / lines.inner;
  return (outer * lines.size + k) * lines.inner + (line - outer * lines.inner);
}

// Returns the number of the line to which element i of the tensor belongs.
COHORT_DEVICE inline int64_t LineOf(const DeviceLines& lines, int64_t i) {
  if (lines.inner == 1) return i / lines.size;
  return i / (lines.size * lines.inner) * lines.inner + i % lines.inner;
}

// The function that takes the larger of two values, for maxima by ReduceEach. If a line has a NaN,
// the result may be any value of the line or NaN; the line's sums are NaN in either case.
struct TakeLarger {
  COHORT_DEVICE double operator()(double a, double b) const { return a > b ? a : b; }
};

// Finds the largest x of each line and writes it to largest[line].
int32_t FindLargest(CudaContext* context, const DeviceLines& lines, const float* x,
                    double* largest) {
  const DeviceLines captured = lines;
  return ReduceEach(
      context, lines.count, lines.size, -static_cast<double>(INFINITY),
      [=] COHORT_DEVICE(int64_t line, int64_t k) {
        return static_cast<double>(x[PlaceInLine(captured, line, k)]);
      },
      TakeLarger{}, [=] COHORT_DEVICE(int64_t line, double value) { largest[line] = value; });
}

// Computes one sum for each line. The element at index `at` of the tensor adds term(line, at); the
// sum is passed to store(line, sum).
template <typename Term, typename Store>
int32_t AddUpLines(CudaContext* context, const DeviceLines& lines, Term term, Store store) {
  const DeviceLines captured = lines;
  return ReduceEach(
      context, lines.count, lines.size, 0.0,
      [=] COHORT_DEVICE(int64_t line, int64_t k) -> double {
        return term(line, PlaceInLine(captured, line, k));
      },
      AddUp{}, store);
}

int32_t Softmax(CudaContext* context, const SoftmaxLaunch& launch) {
  const DeviceLines lines = launch.lines;
  const bool logarithm = launch.logarithm;
  const float* const x = launch.x;
  float* const y = launch.y;
  double* const largest = launch.sums;
  double* const sums = launch.sums + lines.count;
  // The largest x of each line is subtracted from the line, so that exp does not overflow.
  if (const int32_t code = FindLargest(context, lines, x, largest); code != kCudaDone) return code;
  const int32_t code = AddUpLines(
      context, lines,
      [=] COHORT_DEVICE(int64_t line, int64_t at) {
        return static_cast<double>(expf(x[at] - static_cast<float>(largest[line])));
      },
      [=] COHORT_DEVICE(int64_t line, double sum) { sums[line] = logarithm ? log(sum) : 1 / sum; });
  if (code != kCudaDone) return code;
  return ForEach(context, lines.count * lines.size, [=] COHORT_DEVICE(int64_t i) {
    const int64_t line = LineOf(lines, i);
    const float shifted = x[i] - static_cast<float>(largest[line]);
    const float sum = static_cast<float>(sums[line]);
    y[i] = logarithm ? shifted - sum : expf(shifted) * sum;
  });
}

int32_t SoftmaxGrad(CudaContext* context, const SoftmaxGradLaunch& launch) {
  const DeviceLines lines = launch.lines;
  const bool logarithm = launch.logarithm;
  const float* const dy = launch.dy;
  const float* const y = launch.y;
  float* const dx = launch.dx;
  double* const sums = launch.sums;
  // The gradient of Softmax is dx = y (dy - sum of dy y), that of LogSoftmax dx = dy - exp(y) sum
  // of dy.
  const int32_t code = AddUpLines(
      context, lines,
      [=] COHORT_DEVICE(int64_t, int64_t at) {
        return static_cast<double>(dy[at]) * (logarithm ? 1.0 : static_cast<double>(y[at]));
      },
      [=] COHORT_DEVICE(int64_t line, double sum) { sums[line] = sum; });
  if (code != kCudaDone) return code;
  return ForEach(context, lines.count * lines.size, [=] COHORT_DEVICE(int64_t i) {
    const double sum = sums[LineOf(lines, i)];
    const double gradient = dy[i];
    dx[i] = static_cast<float>(logarithm ? gradient - static_cast<double>(expf(y[i])) * sum
                                         : static_cast<double>(y[i]) * (gradient - sum));
  });
}

// Lower limit of probabilities, the same as kKerasEpsilon of kernels/loss_support.h.
constexpr double kLow = 1e-7;
constexpr double kHigh = 1 - kLow;

// Clips a probability to [kLow, kHigh], as Keras does. A NaN stays NaN.
COHORT_DEVICE inline double Clamped(double p) { return p < kLow ? kLow : p > kHigh ? kHigh : p; }
COHORT_DEVICE inline bool IsInside(double p) { return p >= kLow && p <= kHigh; }

// Computes shifts[line] = log(sum of exp(x)) for each line. The line's largest x is subtracted
// before exp, so that exp does not overflow, and is stored in `largest`.
int32_t FindLogSumExp(CudaContext* context, const DeviceLines& lines, const float* x,
                      double* largest, double* shifts) {
  if (const int32_t code = FindLargest(context, lines, x, largest); code != kCudaDone) return code;
  return AddUpLines(
      context, lines,
      [=] COHORT_DEVICE(int64_t line, int64_t at) {
        return exp(static_cast<double>(x[at]) - largest[line]);
      },
      [=] COHORT_DEVICE(int64_t line, double sum) { shifts[line] = largest[line] + log(sum); });
}

// Computes the sum of x over each line and writes it to sums[line].
int32_t FindSum(CudaContext* context, const DeviceLines& lines, const float* x, double* sums) {
  return AddUpLines(
      context, lines, [=] COHORT_DEVICE(int64_t, int64_t at) { return static_cast<double>(x[at]); },
      [=] COHORT_DEVICE(int64_t line, double sum) { sums[line] = sum; });
}

// Computes the categorical cross-entropy of logits for each line: the sum of truth * (shift - x),
// where shift is log(sum of exp(x)).
int32_t DenseOfLogits(CudaContext* context, const DenseLossLaunch& launch) {
  const float* const truth = launch.truth;
  const float* const x = launch.prediction;
  float* const out = launch.out;
  const double* const shifts = launch.sums + launch.lines.count;
  const int32_t code =
      FindLogSumExp(context, launch.lines, x, launch.sums, launch.sums + launch.lines.count);
  if (code != kCudaDone) return code;
  return AddUpLines(
      context, launch.lines,
      [=] COHORT_DEVICE(int64_t line, int64_t at) {
        return static_cast<double>(truth[at]) * (shifts[line] - static_cast<double>(x[at]));
      },
      [=] COHORT_DEVICE(int64_t line, double loss) { out[line] = static_cast<float>(loss); });
}

// Computes the categorical cross-entropy of each line. Predicted probabilities are first divided by
// their sum, as in Keras.
int32_t Dense(CudaContext* context, const DenseLossLaunch& launch) {
  if (launch.from_logits) return DenseOfLogits(context, launch);
  const float* const truth = launch.truth;
  const float* const p = launch.prediction;
  float* const out = launch.out;
  const double* const sums = launch.sums;
  const int32_t code = FindSum(context, launch.lines, p, launch.sums);
  if (code != kCudaDone) return code;
  return AddUpLines(
      context, launch.lines,
      [=] COHORT_DEVICE(int64_t line, int64_t at) {
        const double q = static_cast<double>(p[at]) / sums[line];
        return -static_cast<double>(truth[at]) * log(Clamped(q));
      },
      [=] COHORT_DEVICE(int64_t line, double loss) { out[line] = static_cast<float>(loss); });
}

// Computes the gradient of the categorical cross-entropy of logits: dloss * (softmax(x) * sum of
// truth - truth) for each element.
int32_t DenseGradOfLogits(CudaContext* context, const DenseLossLaunch& launch) {
  const DeviceLines lines = launch.lines;
  const float* const truth = launch.truth;
  const float* const x = launch.prediction;
  const float* const dloss = launch.dloss;
  float* const out = launch.out;
  double* const totals = launch.sums;
  double* const shifts = launch.sums + lines.count;
  int32_t code = FindLogSumExp(context, lines, x, totals, shifts);
  if (code == kCudaDone) code = FindSum(context, lines, truth, totals);
  if (code != kCudaDone) return code;
  return ForEach(context, lines.count * lines.size, [=] COHORT_DEVICE(int64_t i) {
    const int64_t line = LineOf(lines, i);
    const double p = exp(static_cast<double>(x[i]) - shifts[line]);
    out[i] = static_cast<float>(static_cast<double>(dloss[line]) *
                                (p * totals[line] - static_cast<double>(truth[i])));
  });
}

int32_t DenseGrad(CudaContext* context, const DenseLossLaunch& launch) {
  if (launch.from_logits) return DenseGradOfLogits(context, launch);
  const DeviceLines lines = launch.lines;
  const float* const truth = launch.truth;
  const float* const p = launch.prediction;
  const float* const dloss = launch.dloss;
  float* const out = launch.out;
  double* const sums = launch.sums;
  double* const weighted = launch.sums + lines.count;
  int32_t code = FindSum(context, lines, p, sums);
  if (code != kCudaDone) return code;
  // A clipped probability has no gradient of its own. But each probability of the line also
  // contributes to the sum by which all of them are divided, and gets the gradient of this sum.
  code = AddUpLines(
      context, lines,
      [=] COHORT_DEVICE(int64_t line, int64_t at) {
        const bool inside = IsInside(static_cast<double>(p[at]) / sums[line]);
        return inside ? -static_cast<double>(truth[at]) : 0.0;
      },
      [=] COHORT_DEVICE(int64_t line, double sum) { weighted[line] = sum; });
  if (code != kCudaDone) return code;
  return ForEach(context, lines.count * lines.size, [=] COHORT_DEVICE(int64_t i) {
    const int64_t line = LineOf(lines, i);
    const double q = static_cast<double>(p[i]) / sums[line];
    const double gradient = IsInside(q) ? -static_cast<double>(truth[i]) / q : 0;
    out[i] = static_cast<float>(static_cast<double>(dloss[line]) *
                                ((gradient - weighted[line]) / sums[line]));
  });
}

// Computes the sum of each line's clipped predictions, by which Keras divides the predictions.
int32_t FindClampedSum(CudaContext* context, const SparseLossLaunch& launch) {
  const float* const p = launch.prediction;
  double* const sums = launch.sums;
  return AddUpLines(
      context, launch.lines,
      [=] COHORT_DEVICE(int64_t, int64_t at) { return Clamped(static_cast<double>(p[at])); },
      [=] COHORT_DEVICE(int64_t line, double sum) { sums[line] = sum; });
}

// Computes the number that normalises each line of a sparse loss: for logits log(sum of exp(x)), in
// the second half of `sums`; else the sum of clipped predictions, in the first half.
int32_t FindSparseSums(CudaContext* context, const SparseLossLaunch& launch) {
  if (!launch.from_logits) return FindClampedSum(context, launch);
  return FindLogSumExp(context, launch.lines, launch.prediction, launch.sums,
                       launch.sums + launch.lines.count);
}

int32_t Sparse(CudaContext* context, const SparseLossLaunch& launch) {
  if (const int32_t code = FindSparseSums(context, launch); code != kCudaDone) return code;
  const SparseLossLaunch l = launch;
  return ForEach(context, l.lines.count, [=] COHORT_DEVICE(int64_t line) {
    const double chosen = l.prediction[PlaceInLine(l.lines, line, l.labels[line])];
    l.out[line] = static_cast<float>(l.from_logits ? l.sums[l.lines.count + line] - chosen
                                                   : log(l.sums[line]) - log(Clamped(chosen)));
  });
}

int32_t SparseGrad(CudaContext* context, const SparseLossLaunch& launch) {
  if (const int32_t code = FindSparseSums(context, launch); code != kCudaDone) return code;
  const SparseLossLaunch l = launch;
  return ForEach(context, l.lines.count * l.lines.size, [=] COHORT_DEVICE(int64_t i) {
    const int64_t line = LineOf(l.lines, i);
    const double value = l.prediction[i];
    const double target = PlaceInLine(l.lines, line, l.labels[line]) == i ? 1 : 0;
    double gradient = 0;
    if (l.from_logits) {
      gradient = exp(value - l.sums[l.lines.count + line]) - target;
    } else if (IsInside(value)) {
      gradient = (value / l.sums[line] - target) / value;
    }
    l.out[i] = static_cast<float>(static_cast<double>(l.dloss[line]) * gradient);
  });
}

}  // namespace

SoftmaxLaunches MakeSoftmaxLaunches() { return {Softmax, SoftmaxGrad}; }
LossesLaunches MakeLossesLaunches() { return {Dense, DenseGrad, Sparse, SparseGrad}; }

}  // namespace cohort
