#include <cmath>
#include <vector>

#include "common/runtime/kernels/batch_norm_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

struct Statistics {
  double mean = 0;
  double variance = 0;  // the mean of the squared differences (divided by n, not by n - 1)
};

// Calls visit(position) for each element of one channel.
template <typename Visit>
void ForEachOf(const BatchNormShape& shape, int64_t channel, Visit&& visit) {
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    const int64_t first = shape.At(outer, channel);
    for (int64_t i = first; i < first + shape.inner; ++i) visit(i);
  }
}

// Computes mean and variance in two passes, because the variance loses fewer digits if it is
// computed from differences to the mean.
template <typename T>
Statistics BatchStatistics(const T* x, const BatchNormShape& shape, int64_t channel) {
  const auto count = static_cast<double>(shape.count);
  Statistics statistics;
  ForEachOf(shape, channel, [&](int64_t i) { statistics.mean += static_cast<double>(x[i]); });
  statistics.mean /= count;
  ForEachOf(shape, channel, [&](int64_t i) {
    const double off = static_cast<double>(x[i]) - statistics.mean;
    statistics.variance += off * off;
  });
  statistics.variance /= count;
  return statistics;
}

template <typename T>
Statistics Given(const Tensor& mean, const Tensor& variance, int64_t channel) {
  return {static_cast<double>(mean.data<T>()[channel]),
          static_cast<double>(variance.data<T>()[channel])};
}

// Allocates an output in the shape of `like` and returns its elements. Returns nullptr, without
// allocating, if the output is not wanted.
template <typename T>
T* OutputLike(KernelContext& context, int output, const Tensor& like) {
  if (!context.output_wanted(output)) return nullptr;
  return context.Output(output, like.dtype(), like.shape()).template mutable_data<T>();
}

template <typename T>
void Put(T* values, int64_t at, double value) {
  if (values != nullptr) values[at] = static_cast<T>(value);
}

absl::Status RunBatchNorm(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor& x = context.input(0);
  const Tensor& scale = context.input(1);
  const Tensor& bias = context.input(2);
  const Tensor& mean = context.input(3);
  const Tensor& variance = context.input(4);
  ASSIGN_OR_RETURN(const BatchNormShape shape, ResolveBatchNorm(context));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = OutputLike<T>(context, 0, x);
    T* running_mean = OutputLike<T>(context, 1, mean);
    T* running_variance = OutputLike<T>(context, 2, variance);
    const double kept = parameters.momentum;
    for (int64_t c = 0; c < shape.channels; ++c) {
      const Statistics given = Given<T>(mean, variance, c);
      const Statistics used =
          parameters.training ? BatchStatistics<T>(x.data<T>(), shape, c) : given;
      // Outside training mode the statistics in use are the given ones, so running mean and
      // variance keep their values.
      Put(running_mean, c, given.mean * kept + used.mean * (1 - kept));
      Put(running_variance, c, given.variance * kept + used.variance * (1 - kept));
      if (y == nullptr) continue;
      const double factor = static_cast<double>(scale.data<T>()[c]) /
                            std::sqrt(used.variance + static_cast<double>(parameters.epsilon));
      ForEachOf(shape, c, [&](int64_t i) {
        const double off = static_cast<double>(x.data<T>()[i]) - used.mean;
        y[i] = static_cast<T>(off * factor + static_cast<double>(bias.data<T>()[c]));
      });
    }
    return absl::OkStatus();
  });
}

// Computes the gradients of BatchNormalization. With z = (x - mean) / sqrt(variance + epsilon),
// dscale = sum(dy * z) and dbias = sum(dy). Mean and variance of the batch depend on each x, so
// then dx = scale / sqrt(variance + epsilon) * (dy - dbias / count - z * dscale / count).
absl::Status RunBatchNormGrad(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  const Tensor& scale = context.input(2);
  ASSIGN_OR_RETURN(const BatchNormShape shape, ResolveBatchNormGrad(context, parameters));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dx = OutputLike<T>(context, 0, x);
    T* dscale = OutputLike<T>(context, 1, scale);
    T* dbias = OutputLike<T>(context, 2, scale);
    for (int64_t c = 0; c < shape.channels; ++c) {
      const Statistics used = parameters.training ? BatchStatistics<T>(x.data<T>(), shape, c)
                                                  : Given<T>(context.input(3), context.input(4), c);
      const double rate = 1 / std::sqrt(used.variance + static_cast<double>(parameters.epsilon));
      double sum = 0;
      double product = 0;
      ForEachOf(shape, c, [&](int64_t i) {
        const auto grad = static_cast<double>(dy.data<T>()[i]);
        sum += grad;
        product += grad * (static_cast<double>(x.data<T>()[i]) - used.mean) * rate;
      });
      Put(dbias, c, sum);
      Put(dscale, c, product);
      if (dx == nullptr) continue;
      // If mean and variance are inputs, they do not depend on x, so the last two terms of dx are
      // 0.
      const double share = parameters.training ? 1 / static_cast<double>(shape.count) : 0;
      const double factor = static_cast<double>(scale.data<T>()[c]) * rate;
      ForEachOf(shape, c, [&](int64_t i) {
        const double z = (static_cast<double>(x.data<T>()[i]) - used.mean) * rate;
        const double grad = static_cast<double>(dy.data<T>()[i]);
        dx[i] = static_cast<T>(factor * (grad - sum * share - z * product * share));
      });
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceBatchNormalization(KernelRegistry& registry) {
  registry.Add(
      "", "BatchNormalization",
      BoundKernel<BatchNormParameters>({5, 5, {kFloats}, 3}, ParseBatchNorm, RunBatchNorm));
  registry.Add(
      "cohort", "BatchNormalizationGrad",
      BoundKernel<BatchNormParameters>({3, 5, {kFloats}, 3}, ParseBatchNormGrad, RunBatchNormGrad));
}

}  // namespace cohort
