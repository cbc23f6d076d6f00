#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// Returns the index in the tensor of element number k of a channel.
COHORT_DEVICE inline int64_t ElementAt(const ChannelView& view, int64_t channel, int64_t k) {
  return (k / view.inner * view.channels + channel) * view.inner + k % view.inner;
}

COHORT_DEVICE inline int64_t ChannelOf(const ChannelView& view, int64_t element) {
  return element / view.inner % view.channels;
}

int64_t CountOf(const ChannelView& view) { return view.outer * view.inner; }
int64_t SizeOf(const ChannelView& view) { return CountOf(view) * view.channels; }

// Computes mean and variance in two passes: subtracting the squared mean from the mean of squares
// would lose the variance of values far from 0.
int32_t BatchStatistics(CudaContext* context, const BatchStatisticsLaunch& launch) {
  const BatchStatisticsLaunch l = launch;
  const auto count = static_cast<double>(CountOf(l.view));
  const int32_t code = ReduceEach(
      context, l.view.channels, CountOf(l.view), 0.0,
      [=] COHORT_DEVICE(int64_t c, int64_t k) {
        return static_cast<double>(l.x[ElementAt(l.view, c, k)]);
      },
      AddUp(), [=] COHORT_DEVICE(int64_t c, double sum) { l.means[c] = sum / count; });
  if (code != kCudaDone) return code;
  return ReduceEach(
      context, l.view.channels, CountOf(l.view), 0.0,
      [=] COHORT_DEVICE(int64_t c, int64_t k) {
        const double off = static_cast<double>(l.x[ElementAt(l.view, c, k)]) - l.means[c];
        return off * off;
      },
      AddUp(), [=] COHORT_DEVICE(int64_t c, double sum) { l.variances[c] = sum / count; });
}

int32_t GivenStatistics(CudaContext* context, const GivenStatisticsLaunch& launch) {
  const GivenStatisticsLaunch l = launch;
  return ForEach(context, l.channels, [=] COHORT_DEVICE(int64_t c) {
    l.means[c] = static_cast<double>(l.mean[c]);
    l.variances[c] = static_cast<double>(l.variance[c]);
  });
}

int32_t Running(CudaContext* context, const RunningLaunch& launch) {
  const RunningLaunch l = launch;
  return ForEach(context, l.channels, [=] COHORT_DEVICE(int64_t c) {
    l.out[c] =
        static_cast<float>(static_cast<double>(l.before[c]) * l.kept + l.now[c] * (1 - l.kept));
  });
}

int32_t Normalize(CudaContext* context, const NormalizeLaunch& launch) {
  const NormalizeLaunch l = launch;
  return ForEach(context, SizeOf(l.view), [=] COHORT_DEVICE(int64_t i) {
    const int64_t c = ChannelOf(l.view, i);
    const double factor = static_cast<double>(l.scale[c]) / sqrt(l.variances[c] + l.epsilon);
    const double off = static_cast<double>(l.x[i]) - l.means[c];
    l.y[i] = static_cast<float>(off * factor + static_cast<double>(l.bias[c]));
  });
}

// The two sums over one channel that BatchNormalization's gradient needs, of dy and of dy * (x -
// mean). One pass over memory computes both.
struct SumAndProduct {
  double sum;
  double product;
};

COHORT_DEVICE inline SumAndProduct operator+(const SumAndProduct& a, const SumAndProduct& b) {
  return {a.sum + b.sum, a.product + b.product};
}

int32_t Sums(CudaContext* context, const BatchNormSumsLaunch& launch) {
  const BatchNormSumsLaunch l = launch;
  return ReduceEach(
      context, l.view.channels, CountOf(l.view), SumAndProduct{0, 0},
      [=] COHORT_DEVICE(int64_t c, int64_t k) {
        const int64_t i = ElementAt(l.view, c, k);
        const auto grad = static_cast<double>(l.dy[i]);
        return SumAndProduct{grad, grad * (static_cast<double>(l.x[i]) - l.means[c])};
      },
      AddUp(),
      [=] COHORT_DEVICE(int64_t c, const SumAndProduct& of) {
        l.sums[c] = of.sum;
        l.products[c] = of.product / sqrt(l.variances[c] + l.epsilon);
        if (l.dbias != nullptr) l.dbias[c] = static_cast<float>(l.sums[c]);
        if (l.dscale != nullptr) l.dscale[c] = static_cast<float>(l.products[c]);
      });
}

// Computes BatchNormalization's dx. Statistics that are computed from the batch depend on every x,
// which adds two terms to dx. For given statistics, `share` is 0, which removes these two terms.
int32_t Gradient(CudaContext* context, const BatchNormGradLaunch& launch) {
  const BatchNormGradLaunch l = launch;
  const double share = l.training ? 1 / static_cast<double>(CountOf(l.view)) : 0;
  return ForEach(context, SizeOf(l.view), [=] COHORT_DEVICE(int64_t i) {
    const int64_t c = ChannelOf(l.view, i);
    const double rate = 1 / sqrt(l.variances[c] + l.epsilon);
    const double z = (static_cast<double>(l.x[i]) - l.means[c]) * rate;
    const auto grad = static_cast<double>(l.dy[i]);
    l.dx[i] = static_cast<float>(static_cast<double>(l.scale[c]) * rate *
                                 (grad - l.sums[c] * share - z * l.products[c] * share));
  });
}

}  // namespace

BatchNormLaunches MakeBatchNormLaunches() {
  return {BatchStatistics, GivenStatistics, Running, Normalize, Sums, Gradient};
}

}  // namespace cohort
