#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/backend/lines.cuh"
#include "common/runtime/cuda/launches/softmax_launches.h"

namespace cohort {

namespace {

int32_t Softmax(CudaContext* context, const SoftmaxLaunch& launch) {
  const DeviceLines lines = launch.lines;
  const bool logarithm = launch.logarithm;
  const float* const x = launch.x;
  float* const y = launch.y;
  double* const largest = launch.sums;
  double* const sums = launch.sums + lines.count;
  // Subtracting the largest x keeps exp from overflowing.
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
  // Softmax: dx = y (dy - sum of dy y). LogSoftmax: dx = dy - exp(y) sum of dy.
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

}  // namespace

SoftmaxLaunches MakeSoftmaxLaunches() { return {Softmax, SoftmaxGrad}; }

}  // namespace cohort
